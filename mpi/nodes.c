// SPDX-License-Identifier: MIT
/*
 * A node is where the same memory is seen: by the boot of a machine, a daemon's
 * socket, a user and a pool. Of these a digest is compared, in two steps: ranks with
 * one number of 31 bits become a communicator, and what is in there by accident is
 * told apart there. So no rank needs a list of all.
 */
#include "mpi/nodes.h"

#include <errno.h>
#include <stdio.h>
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

int nodes_key(tarn_store *store, struct digest *ret)
{
	const char *socket = tarn_store_socket(store),
		   *pool = tarn_store_pool(store);
	struct digest_state *state = digest_new();
	uid_t uid = getuid();
	struct stat st;

	if (!state)
		return tarn_error_set(ENOMEM, "out of memory");
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
	*ret = digest_end(state);
	digest_free(state);
	return 0;
}

/* Of the ranks in some, the first that has the key that this one has. */
static int first_alike(const struct digest *key, MPI_Comm some, int *ret)
{
	struct digest *keys;
	int n, i = 0, r;

	MPI_Comm_size(some, &n);
	keys = calloc((size_t)n, sizeof(*keys));
	if (!keys)
		return tarn_error_set(ENOMEM, "out of memory");
	r = mpi_check(MPI_Allgather(key, sizeof(*key), MPI_BYTE, keys,
			      sizeof(*key), MPI_BYTE, some),
		WHAT);
	while (r >= 0 && i < n - 1 && !digest_same(&keys[i], key))
		i++;
	free(keys);
	*ret = i;
	return r;
}

/* The ranks of this one's node. */
static int split_node(
	const struct digest *key, MPI_Comm comm, int rank, MPI_Comm *ret)
{
	MPI_Comm some;
	int first = 0, r;

	r = mpi_check(
		MPI_Comm_split(comm, (int)(key->low & INT32_MAX), rank, &some),
		WHAT);
	if (r < 0)
		return r;
	r = first_alike(key, some, &first);
	if (r >= 0)
		r = mpi_check(MPI_Comm_split(some, first, rank, ret), WHAT);
	MPI_Comm_free(&some);
	return r;
}

int nodes_find(const struct digest *key, MPI_Comm comm, struct nodes *ret)
{
	int two[2] = {0}, rank, at, r;
	MPI_Comm mine, firsts;

	MPI_Comm_rank(comm, &rank);
	r = split_node(key, comm, rank, &mine);
	if (r < 0)
		return r;
	MPI_Comm_rank(mine, &at);
	r = mpi_check(
		MPI_Comm_split(comm, at ? MPI_UNDEFINED : 0, rank, &firsts),
		WHAT);
	if (r >= 0 && firsts != MPI_COMM_NULL) {
		MPI_Comm_size(firsts, &two[0]);
		MPI_Comm_rank(firsts, &two[1]);
	}
	if (r >= 0)
		r = mpi_check(MPI_Bcast(two, 2, MPI_INT, 0, mine), WHAT);
	MPI_Comm_free(&mine);
	if (r >= 0)
		*ret = (struct nodes) {
			.firsts = firsts, .n = two[0], .me = two[1]};
	return r;
}
