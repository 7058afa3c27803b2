// SPDX-License-Identifier: MIT
/*
 * load WORD FILE [NAME]: loads a file with all ranks, and prints a line for each
 * rank, in their order: how its set differs from the file, or the error. WORD: load,
 * fresh; ended: by tarn_mpi_load_world, after the end of MPI; of the last rank: insists: it alone wants a fresh one; renames: it has another
 * name; changes: its file does, when it is about to be read; late: it comes only when the others have given up; sleepsN:
 * it goes on only then after the Nth agreement of all ranks; dies: it never comes;
 * shrinks: its file does, when it is about to be read; hangs: a read of it fails, and
 * the others do not end; flips: a bit of its memory does,
 * when all is there; stops: its daemon does then; poor: its memory runs out.
 *
 * strike FILE NAME RANK USEC SIGNAL PID [MS]: that rank sends the signal, so long
 * after it has begun, to that process or, if it is 0, to itself; or before it begins
 * (-1), and all begin when there is a file "struck" in the folder of the test. MS is
 * the time-out of the load.
 */
#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <tarn/mpi.h>
#include <tarn/publish.h>
#include <tarn/set.h>

#include "tests/mpi/ranks.h"

#define LINE 1500

static const char *word, *path;
static bool last;
static int sleeps; /* after that agreement; 0: never */

static void await_others(void);

/* ---- what goes wrong under way: calls of libtarn-mpi come by here ------ */

static void *real(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found)
		abort();
	return found;
}

int tarn_store_create(tarn_store *store, enum tarn_dtype dtype, int ndim,
	const int64_t *shape, unsigned flags, tarn_tensor **ret)
{
	__typeof__(tarn_store_create) *create = real("tarn_store_create");

	if (last && !strcmp(word, "shrinks") && truncate(path, 100000) < 0)
		abort();
	if (last && !strcmp(word, "changes") && utimes(path, NULL) < 0)
		abort();
	return create(store, dtype, ndim, shape, flags, ret);
}

int tarn_tensor_take(const tarn_tensor *tensor)
{
	__typeof__(tarn_tensor_take) *take = real("tarn_tensor_take");
	static int takes;

	if (last && !strcmp(word, "poor") && ++takes > 3)
		return tarn_error_set(ENOMEM, "no memory, says the test");
	return take(tensor);
}

int tarn_tensor_digest(const tarn_tensor *tensor,
	const struct tarn_copy_options *options, struct tarn_digest *ret)
{
	__typeof__(tarn_tensor_digest) *digest = real("tarn_tensor_digest");

	if (last && !strcmp(word, "flips"))
		((char *)tarn_tensor_data(tensor))[1000] ^= 4;
	if (last && !strcmp(word, "stops") && system("$TARN stop >/dev/null"))
		abort();
	return digest(tensor, options, ret);
}

/* A read fails, and no other one ends. */
int tarn_stream_reap(tarn_stream *stream, size_t at_least, int timeout_ms,
	struct tarn_completion *rets, size_t n)
{
	__typeof__(tarn_stream_reap) *reap = real("tarn_stream_reap");
	static bool failed;
	int done;

	if (!last || strcmp(word, "hangs"))
		return reap(stream, at_least, timeout_ms, rets, n);
	done = failed ? 0 : reap(stream, at_least, timeout_ms, rets, 1);
	if (failed)
		usleep((useconds_t)timeout_ms * 1000);
	if (done > 0) {
		failed = true;
		rets->result = -EIO;
		strcpy(rets->message, "a read fails");
	}
	return done;
}

tarn_stream *tarn_stream_free(tarn_stream *stream)
{
	__typeof__(tarn_stream_free) *free_it = real("tarn_stream_free");

	if (last && !strcmp(word, "hangs"))
		pause(); /* as long as the kernel has requests */
	return free_it(stream);
}

int MPI_Iallreduce(const void *from, void *to, int count, MPI_Datatype type,
	MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
	int r = PMPI_Iallreduce(from, to, count, type, op, comm, request);
	static int agreements;

	if (last && ++agreements == sleeps) {
		PMPI_Wait(request, MPI_STATUS_IGNORE);
		await_others();
	}
	return r;
}

/* ---- what is loaded ----------------------------------------------------- */

/* The tensors of the set that are not the file's. */
static int differences(tarn_store *store, const char *name)
{
	struct tarn_digest a, b;
	tarn_tensor *want, *seen;
	tarn_file *file;
	char full[2000];
	int n = 0;

	must(tarn_file_open(path, &file));
	for (size_t i = 0; i < tarn_file_count(file); i++) {
		const char *tensor = tarn_file_at(file, i)->name;

		snprintf(full, sizeof(full), "%s/%s", name, tensor);
		must(tarn_file_tensor(file, tensor, &want));
		must(tarn_store_lookup(store, full, &seen));
		must(tarn_tensor_digest(want, NULL, &a));
		must(tarn_tensor_digest(seen, NULL, &b));
		n += memcmp(&a, &b, sizeof(a)) ||
		     tarn_tensor_layout(want)->dtype !=
			     tarn_tensor_layout(seen)->dtype;
		tarn_tensor_unref(want);
		tarn_tensor_unref(seen);
	}
	tarn_file_unref(file);
	return n;
}

/* ---- a rank that is late: MPI is of no use then ------------------------- */

/* "late.RANK" in the folder of the test: it has printed its line. */
static void mark(int of, char path_of[LINE])
{
	snprintf(path_of, LINE, "%s/late.%d", getenv("TMPDIR"), of);
}

static void await(int of)
{
	char name[LINE];

	mark(of, name);
	/* What comes late comes now: to memory that is still there. */
	for (int i = 0, flag; i < 12000 && access(name, F_OK) < 0; i++) {
		usleep(10000);
		MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag,
			MPI_STATUS_IGNORE);
	}
}

static void await_others(void)
{
	for (int i = 0; i < ranks - 1; i++)
		await(i);
}

static void tell(const char *line)
{
	char name[LINE], hidden[LINE + 1];
	FILE *f;

	printf("rank %d: %s\n", rank, line);
	fflush(stdout);
	mark(rank, name);
	snprintf(hidden, sizeof(hidden), "%s~", name);
	f = fopen(hidden, "w");
	if (!f)
		return;
	fprintf(f, "rank %d: %s\n", rank, line);
	if (fclose(f) == 0)
		rename(hidden, name);
}

/* ---- the load ----------------------------------------------------------- */

static void load(const char *name, bool late, char line[LINE])
{
	struct tarn_mpi_load_options options = {.name = name,
		.node = getenv("NODE"),
		.fresh = !strcmp(word, "fresh") ||
			 (last && !strcmp(word, "insists")),
		.timeout_ms = late ? 1000 : 60000};
	struct tarn_mpi_load_info info;
	tarn_store *store = NULL;
	int r;

	if (last && !strcmp(word, "renames"))
		options.name = "renamed";
	r = tarn_mpi_load(NULL, path, &options, MPI_COMM_WORLD, &info);

	if (r < 0) {
		snprintf(line, LINE, "%s: %s", strerrorname_np(-r),
			tarn_error_message());
		return;
	}
	must(tarn_store_open(NULL, NULL, &store));
	snprintf(line, LINE,
		"%d differ of %zu; %llu bytes, %llu read, node %d of %d%s",
		differences(store, name ? name : path + 1), info.tensors,
		(unsigned long long)info.bytes, (unsigned long long)info.read,
		info.node, info.nodes, info.cached ? ", cached" : "");
	tarn_store_unref(store);
}

/* ---- a signal under way -------------------------------------------------- */

#define STRIKE_MS 2000 /* for the load, unless it is told another */

struct strike {
	int rank;
	int after; /* us; -1: before it */
	int signal;
	pid_t pid;
	int timeout_ms;
};

static void *strike_thread(void *arg)
{
	const struct strike *strike = arg;

	usleep((useconds_t)strike->after);
	kill(strike->pid ? strike->pid : getpid(), strike->signal);
	return NULL;
}

static void await_file(const char *name)
{
	for (int i = 0; i < 12000 && access(name, F_OK) < 0; i++)
		usleep(10000);
}

static void ready_file(int of, char ret[LINE])
{
	snprintf(ret, LINE, "%s/ready.%d", getenv("TMPDIR"), of);
}

/* Not before each rank has a connection to each other: MPI waits for ever for one
 * that cannot be made. */
static void await_struck(const struct strike *strike)
{
	int *to = calloc((size_t)ranks, sizeof(*to));
	int *from = calloc((size_t)ranks, sizeof(*from));
	char name[LINE];

	MPI_Alltoall(to, 1, MPI_INT, from, 1, MPI_INT, MPI_COMM_WORLD);
	free(to);
	free(from);
	ready_file(rank, name);
	fclose(fopen(name, "w"));
	for (int i = 0; rank == strike->rank && i < ranks; i++) {
		ready_file(i, name);
		await_file(name);
	}
	if (rank == strike->rank)
		kill(strike->pid, strike->signal);
	snprintf(name, LINE, "%s/struck", getenv("TMPDIR"));
	await_file(name);
}

static void load_struck(const char *name, const struct strike *strike)
{
	const struct tarn_mpi_load_options options = {.name = name,
		.node = getenv("NODE"),
		.timeout_ms = strike->timeout_ms};
	double begun;
	pthread_t thread;
	char line[LINE];
	int r;

	if (strike->after < 0)
		await_struck(strike);
	begun = MPI_Wtime();
	if (rank == strike->rank && strike->after >= 0 &&
		pthread_create(&thread, NULL, strike_thread, (void *)strike))
		abort();
	r = tarn_mpi_load(NULL, path, &options, MPI_COMM_WORLD, NULL);
	snprintf(line, LINE, "%.1f s: %s", MPI_Wtime() - begun,
		r < 0 ? tarn_error_message() : "loaded");
	tell(line);
	/* Any of them may end the job when those that can have told. */
	for (int i = 0; i < ranks; i++)
		if (strike->pid || i != strike->rank)
			await(i);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

/* MPI cannot be initialised twice. */
static int load_ended(void)
{
	int r;

	MPI_Finalize();
	r = tarn_mpi_load_world(NULL, path, NULL, NULL);
	if (r >= 0)
		return 1;
	printf("rank %d: %s: %s\n", rank, strerrorname_np(-r),
		tarn_error_message());
	return 0;
}

int main(int argc, char **argv)
{
	char line[LINE] = "", (*lines)[LINE];
	bool late;

	ranks_begin(&argc, &argv);
	word = argv[1];
	path = argv[2];
	last = rank == ranks - 1;
	if (sscanf(word, "sleeps%d", &sleeps) != 1)
		sleeps = 0;
	if (!strcmp(word, "ended"))
		return load_ended();
	if (!strcmp(word, "strike") && argc >= 8) {
		struct strike strike = {.rank = atoi(argv[4]),
			.after = atoi(argv[5]),
			.signal = atoi(argv[6]),
			.pid = atoi(argv[7]),
			.timeout_ms = argc > 8 ? atoi(argv[8]) : STRIKE_MS};

		load_struck(argv[3], &strike);
	}
	late = sleeps || !strcmp(word, "late") || !strcmp(word, "hangs");
	if (last && !strcmp(word, "dies"))
		raise(SIGKILL);
	if (last && !strcmp(word, "late"))
		await_others();
	load(argc > 3 ? argv[3] : NULL, late, line);
	if (late) {
		/* No communicator is as it was, and this ends all ranks. */
		tell(line);
		for (int i = 0; i < ranks; i++)
			await(i);
		MPI_Abort(MPI_COMM_WORLD, 3);
	}
	lines = calloc((size_t)ranks, LINE);
	MPI_Gather(
		line, LINE, MPI_CHAR, lines, LINE, MPI_CHAR, 0, MPI_COMM_WORLD);
	for (int i = 0; rank == 0 && i < ranks; i++)
		printf("rank %d: %s\n", i, lines[i]);
	free(lines);
	MPI_Finalize();
	return 0;
}
