// SPDX-License-Identifier: MIT
/*
 * A node is where the same memory is seen: by the boot of a machine, a daemon's
 * socket, a user and a pool. Rank 0 gets a digest of these from each rank, and tells
 * each which node it is of, and who is beside it: no other rank needs a list of all.
 * A communicator for each node would need MPI_Comm_split, which has no deadline.
 */
#include "mpi/nodes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHAT "finding the nodes"

/* Two machines have different ones. */
static void add_boot(struct digest_state *state)
{
	char text[64] = "";
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (f && fgets(text, sizeof(text), f))
		digest_add(state, text, strlen(text));
	else if (!gethostname(text, sizeof(text) - 1))
		digest_add(state, text, strlen(text));
	if (f)
		fclose(f);
}

static void add_place(struct digest_state *state, tarn_store *store)
{
	const char *socket = tarn_store_socket(store),
		   *pool = tarn_store_pool(store);
	uid_t uid = getuid();
	struct stat st;

	add_boot(state);
	/* By its inode: the same path in two containers is two daemons. */
	if (!stat(socket, &st)) {
		digest_add(state, &st.st_dev, sizeof(st.st_dev));
		digest_add(state, &st.st_ino, sizeof(st.st_ino));
	} else {
		digest_add(state, socket, strlen(socket));
	}
	digest_add(state, &uid, sizeof(uid));
	digest_add(state, pool, strlen(pool));
}

int nodes_key(tarn_store *store, const char *name, struct nodes_rank *ret)
{
	struct digest_state *place = digest_new(), *called = digest_new();
	bool good = place && called;

	if (good) {
		add_place(place, store);
		ret->key = digest_end(place);
		digest_add(called, name, strlen(name));
		ret->name = digest_end(called);
	}
	digest_free(place);
	digest_free(called);
	return good ? 0 : tarn_error_set(ENOMEM, "out of memory");
}

/* ---- what rank 0 finds ----------------------------------------------- */

struct place {
	struct nodes_rank says;
	int rank;
};

struct nodes_post {
	struct nodes_rank mine;
	struct nodes found;
	int size; /* of the communicator; the rest is of rank 0 */
	struct nodes_rank *all;
	struct place *places;
	struct nodes *answers;
	int *firsts;
};

static int compare(const void *x, const void *y)
{
	const struct place *a = x, *b = y;
	int by_key = memcmp(&a->says.key, &b->says.key, sizeof(a->says.key));

	return by_key ? by_key : (a->rank > b->rank) - (a->rank < b->rank);
}

/* Each rank's first one: that of the lowest number among those with its key. */
static void find_firsts(struct nodes_post *post)
{
	const struct place *first = post->places;

	for (int i = 0; i < post->size; i++)
		post->places[i] =
			(struct place) {.says = post->all[i], .rank = i};
	qsort(post->places, (size_t)post->size, sizeof(*post->places), compare);
	for (int i = 0; i < post->size; i++) {
		const struct place *at = &post->places[i];

		if (!digest_same(&at->says.key, &first->says.key))
			first = at;
		post->answers[at->rank] = (struct nodes) {.first = first->rank,
			.other_name = !digest_same(
				&at->says.name, &first->says.name)};
	}
}

static void number(struct nodes_post *post)
{
	int n = 0;

	for (int i = 0; i < post->size; i++) {
		struct nodes *answer = &post->answers[i];

		if (answer->first == i) {
			answer->me = n;
			post->firsts[n++] = i;
		}
		answer->me = post->answers[answer->first].me;
	}
	for (int i = 0; i < post->size; i++) {
		struct nodes *answer = &post->answers[i];

		answer->n = n;
		answer->before = post->firsts[(answer->me - 1 + n) % n];
		answer->after = post->firsts[(answer->me + 1) % n];
	}
}

/* ---- the call -------------------------------------------------------- */

void nodes_end(struct nodes_post *post)
{
	if (!post)
		return;
	free(post->all);
	free(post->places);
	free(post->answers);
	free(post->firsts);
	free(post);
}

static bool add_lists(struct nodes_post *post)
{
	size_t n = (size_t)post->size;

	post->all = calloc(n, sizeof(*post->all));
	post->places = calloc(n, sizeof(*post->places));
	post->answers = calloc(n, sizeof(*post->answers));
	post->firsts = calloc(n, sizeof(*post->firsts));
	return post->all && post->places && post->answers && post->firsts;
}

int nodes_begin(MPI_Comm comm, struct nodes_post **ret)
{
	struct nodes_post *post = calloc(1, sizeof(*post));
	int rank;

	MPI_Comm_rank(comm, &rank);
	if (post)
		MPI_Comm_size(comm, &post->size);
	if (!post || (!rank && !add_lists(post))) {
		nodes_end(post);
		return tarn_error_set(ENOMEM, "out of memory");
	}
	*ret = post;
	return 0;
}

static int gather(struct nodes_post *post, MPI_Comm comm,
	const struct mpi_deadline *deadline)
{
	const int size = sizeof(post->mine);
	MPI_Request request;
	int r = mpi_check(MPI_Igather(&post->mine, size, MPI_BYTE, post->all,
				  size, MPI_BYTE, 0, comm, &request),
		WHAT);

	return r < 0 ? r : mpi_wait(&request, deadline, "another rank");
}

static int scatter(struct nodes_post *post, MPI_Comm comm,
	const struct mpi_deadline *deadline)
{
	const int size = sizeof(post->found);
	MPI_Request request;
	int r = mpi_check(
		MPI_Iscatter(post->answers, size, MPI_BYTE, &post->found, size,
			MPI_BYTE, 0, comm, &request),
		WHAT);

	return r < 0 ? r : mpi_wait(&request, deadline, "rank 0");
}

int nodes_find(const struct nodes_rank *mine, MPI_Comm comm,
	const struct mpi_deadline *deadline, struct nodes_post *post,
	struct nodes *ret)
{
	int r;

	post->mine = *mine;
	r = gather(post, comm, deadline);
	if (r >= 0 && post->all) {
		find_firsts(post);
		number(post);
	}
	if (r >= 0)
		r = scatter(post, comm, deadline);
	if (r >= 0)
		*ret = post->found;
	return r;
}
