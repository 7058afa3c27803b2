// SPDX-License-Identifier: MIT
/*
 * A file for all nodes. Between the steps all ranks tell each other whether all is
 * well: a rank that meets an error of its own goes on to that point, so that the
 * others fail at once and with that error, not by waiting for it.
 */
#include "mpi/load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tarn/mpi.h>
#include <tarn/report.h>

#include "base/checked.h"
#include "base/clock.h"
#include "mpi/rank.h"
#include "mpi/ring.h"

#define VERB "tarn_mpi_load"
#define TIMEOUT_MS 300000 /* as that of load_file in Python */

enum { ABSENT = 0, PRESENT = 1 };

/* All ranks say whether all is well; *ret_least may be NULL. */
static int talk(const struct load *load, struct said *said, int *ret_least)
{
	char text[SAID_TEXT];

	if (said->error) {
		memcpy(text, said->text, sizeof(text));
		snprintf(said->text, sizeof(said->text), "node %s: %.*s",
			load->node, (int)sizeof(text) - NODE_MAX - 10, text);
	}
	return said_by_all(VERB, said, load->comm, &load->deadline, ret_least);
}

/* The result of a step of this rank alone. */
static int talk_of(const struct load *load, int r, int *ret_least)
{
	struct said said = {.good = PRESENT};

	if (r < 0)
		said_failed(&said, r);
	return talk(load, &said, ret_least);
}

/* Is this rank the one that reads, sends and publishes for its node? */
static bool is_first(const struct load *load)
{
	return load->nodes.first == load->rank;
}

/* ---- steps ----------------------------------------------------------- */

/* A communicator for this load: others' messages do not meet its own, and errors
 * are returned. */
static int begin(struct load *load, MPI_Comm comm)
{
	MPI_Comm *own = malloc(sizeof(*own)); /* outlives a timeout */
	MPI_Request request;
	int r;

	load->post = malloc(sizeof(*load->post));
	if (!own || !load->post) {
		free(own);
		free(load->post);
		return tarn_error_set(ENOMEM, "%s: out of memory", VERB);
	}
	load->deadline.post = load->post;
	load->deadline.lost = &load->lost;
	r = mpi_check(MPI_Comm_idup(comm, own, &request), VERB);
	if (r >= 0)
		r = mpi_wait(&request, &load->deadline, "another rank");
	if (r < 0)
		return r;
	load->comm = *own;
	free(own);
	MPI_Comm_set_errhandler(load->comm, MPI_ERRORS_RETURN);
	MPI_Comm_rank(load->comm, &load->rank);
	return 0;
}

/* Have all nodes the set already? */
static int is_there(struct load *load, bool *ret)
{
	struct said said = {.good = PRESENT};
	int r = load_compare(load, &said), least;

	if (r < 0)
		return r;
	if (load->nodes.other_name)
		said_failed(&said,
			tarn_error_set(EINVAL,
				"it is to call the set %.300s, rank %d of the "
				"same node otherwise; give both one name",
				load->prefix, load->nodes.first));
	if (load->options.fresh || (is_first(load) && load_has(load) < 0))
		said.good = ABSENT;
	r = talk(load, &said, &least);
	if (r >= 0)
		*ret = least == PRESENT;
	return r;
}

struct sum {
	struct tarn_digest digest;
	char node[NODE_MAX];
};

/* Are the bytes those of the first node, which is that of rank 0? A difference is
 * noted. */
static int compare_sums(
	struct load *load, const struct sum *mine, struct said *said)
{
	struct sum first = *mine;
	int r = told_by(0, "rank 0", &first, sizeof(first), load->comm,
		&load->deadline);

	if (r < 0 || !is_first(load) ||
		!memcmp(&first.digest, &mine->digest, sizeof(first.digest)))
		return r;
	said_failed(said,
		tarn_error_set(EIO,
			"the bytes have digest %016" PRIx64 "%016" PRIx64
			", those on node %.64s %016" PRIx64 "%016" PRIx64
			": the file changed while it was read, or a byte was "
			"lost on the way; load it again",
			mine->digest.word[0], mine->digest.word[1], first.node,
			first.digest.word[0], first.digest.word[1]));
	return 0;
}

/* On the first rank of a node: gets all bytes. */
static int fill(struct load *load, tarn_tensor *memory, struct said *said,
	struct sum *ret)
{
	int r = ring_fill(&load->source, memory, load->comm, &load->nodes,
		&load->deadline, said, &load->read);

	load->adrift = r < 0;
	if (r < 0)
		return r;
	memcpy(ret->node, load->node, sizeof(ret->node));
	if (!said->error) {
		int failed = tarn_tensor_digest(memory, NULL, &ret->digest);

		if (failed < 0)
			said_failed(said, failed);
	}
	return 0;
}

/* Memory for all bytes, which is taken when they come. What can never be published is
 * not to be read, and sent, first: that memory may be this process's own, of which the
 * daemon knows nothing. */
static int room(const struct load *load, tarn_tensor **ret)
{
	int64_t size = (int64_t)load->source.memory;
	struct tarn_report *report;
	uint64_t budget;
	int r = tarn_store_report(load->store, &report);

	if (r < 0)
		return r;
	budget = report->daemon.budget;
	tarn_report_free(report);
	if (load->source.memory > budget)
		return tarn_error_set(ENOSPC,
			"%s has %" PRId64 " bytes, and the daemon at %s has a "
			"budget of %" PRIu64
			"; start tarnd with a larger --budget",
			load->path, size, tarn_store_socket(load->store),
			budget);
	return tarn_store_create(
		load->store, TARN_U8, 1, &size, TARN_CREATE_UNTAKEN, ret);
}

/* All nodes have all bytes, and the same ones. */
static int move(struct load *load, tarn_tensor **ret_memory)
{
	bool first = is_first(load);
	struct said said = {0};
	struct sum sum = {0};
	int r = first ? room(load, ret_memory) : 0;

	r = talk_of(load, r, NULL);
	if (r >= 0 && first)
		r = fill(load, *ret_memory, &said, &sum);
	/* What a file could not give is told by its own node, before others see
	 * that they have other bytes. */
	if (r >= 0)
		r = talk(load, &said, NULL);
	if (r >= 0)
		r = compare_sums(load, &sum, &said);
	if (r >= 0)
		r = talk(load, &said, NULL);
	if (r < 0 || !mpi_deadline_passed(&load->deadline))
		return r;
	/* Others that did not learn this in time have given up; what they have
	 * sent on the communicator must meet no other one. */
	load->lost = true;
	return tarn_error_set(ETIMEDOUT,
		"%s: all nodes had all bytes only after %g s; give a longer "
		"timeout",
		VERB, load->deadline.seconds);
}

static int publish(struct load *load, tarn_tensor *memory)
{
	int r = 0;

	if (is_first(load))
		r = load_publish(load, memory);
	r = talk_of(load, r, NULL);
	/* Each rank finds what the first one of its node has published. */
	return r < 0 ? r : talk_of(load, load_has(load), NULL);
}

/* All ranks are here, and from now on have one deadline: the first that gives up
 * ends the load of all, and none publishes then what others think has failed. */
static int meet(struct load *load)
{
	struct said said = {0};
	int r = load_describe(load), least;
	double left;

	if (r < 0)
		said_failed(&said, r);
	left = load->deadline.end - clock_seconds(CLOCK_MONOTONIC);
	said.good = left > 0 ? (int)(left * 1000) : 0;
	r = talk(load, &said, &least);
	if (r >= 0)
		load->deadline.end = MIN(load->deadline.end,
			clock_seconds(CLOCK_MONOTONIC) + least / 1000.);
	return r;
}

static int run(struct load *load, bool *ret_cached)
{
	tarn_tensor *memory = NULL;
	int r = meet(load);

	if (r >= 0)
		r = nodes_find(&load->says, load->comm, &load->deadline,
			load->nodes_post, &load->nodes);
	if (r >= 0)
		r = is_there(load, ret_cached);
	if (r < 0 || *ret_cached)
		return r;
	r = move(load, &memory);
	if (r >= 0 && tarn_file_count(load->source.file))
		r = publish(load, memory);
	if (!load->adrift)
		tarn_tensor_unref(memory);
	return r;
}

/* ---- the call -------------------------------------------------------- */

static void end(struct load *load, bool opened)
{
	if (opened)
		tarn_store_unref(load->store);
	source_close(&load->source);
	if (load->adrift || load->lost)
		return;
	nodes_end(load->nodes_post);
	free(load->post);
	MPI_Comm_free(&load->comm);
}

static void info_of(
	const struct load *load, struct tarn_mpi_load_info *ret, double seconds)
{
	*ret = (struct tarn_mpi_load_info) {.read = load->read,
		.seconds = seconds,
		.tensors = tarn_file_count(load->source.file),
		.nodes = load->nodes.n,
		.node = load->nodes.me,
		.rank = load->rank};
	for (size_t i = 0; i < load->source.n_shards; i++)
		ret->bytes += load->source.shards[i].size;
}

TARN_PUBLIC int tarn_mpi_load(tarn_store *store, const char *path,
	const struct tarn_mpi_load_options *options, MPI_Comm comm,
	struct tarn_mpi_load_info *ret_info)
{
	static const struct tarn_mpi_load_options none;
	struct load load = {.path = path,
		.options = options ? *options : none,
		.store = store,
		.comm = MPI_COMM_NULL};
	double begun = clock_seconds(CLOCK_MONOTONIC);
	int timeout = load.options.timeout_ms > 0 ? load.options.timeout_ms
						  : TIMEOUT_MS;
	bool cached = false;
	int r;

	load.deadline = mpi_deadline_in(VERB, timeout / 1000.);
	if (load.options.node)
		snprintf(load.node, sizeof(load.node), "%s", load.options.node);
	else
		gethostname(load.node, sizeof(load.node) - 1);
	r = rank_check_comm(VERB, comm);
	if (r >= 0)
		r = begin(&load, comm);
	if (r < 0)
		return r;
	r = run(&load, &cached);
	if (r >= 0 && ret_info) {
		info_of(&load, ret_info,
			clock_seconds(CLOCK_MONOTONIC) - begun);
		ret_info->cached = cached;
	}
	end(&load, !store);
	return r;
}
