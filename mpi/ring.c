// SPDX-License-Identifier: MIT
/*
 * The ring. In each round every node sends one chunk of its part to the next node,
 * and passes on what comes from the one before, as soon as it is there: each link
 * carries every chunk once. While a round goes on, the next chunks are read.
 */
#include "mpi/ring.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/page.h"
#include "mpi/reader.h"

#define TAGS 32768 /* MPI promises tags below this; messages keep their order */
#define DISK_MS 1  /* between two looks at the network; picked */

struct ring {
	MPI_Comm comm;
	int me, n;         /* nodes */
	int before, after; /* ranks */
	char *bytes;       /* of memory */
	uint64_t size;     /* of it */
	struct reader reader;
	struct mpi_deadline deadline;
	MPI_Request *coming, *going; /* of one round, by the node they are of */
	char who_before[32], who_after[32];
};

/* Parts are of one size, but end where pages of the file do. */
static uint64_t part_begin(const struct ring *ring, int node)
{
	uint64_t n = (uint64_t)ring->n, i = (uint64_t)node;

	if (node == ring->n)
		return ring->size;
	return round_down_u64(
		ring->size / n * i + ring->size % n * i / n, PAGE);
}

struct chunk {
	char *at;
	int size; /* 0: there is none */
};

static struct chunk chunk_of(const struct ring *ring, int node, int round)
{
	uint64_t begin = part_begin(ring, node) + (uint64_t)round * CHUNK,
		 end = part_begin(ring, node + 1);

	if (begin >= end)
		return (struct chunk) {0};
	return (struct chunk) {.at = ring->bytes + begin,
		.size = (int)MIN(end - begin, CHUNK)};
}

static int count_rounds(const struct ring *ring)
{
	uint64_t most = 0;

	for (int i = 0; i < ring->n; i++)
		most = MAX(most, part_begin(ring, i + 1) - part_begin(ring, i));
	return (int)((most + CHUNK - 1) / CHUNK);
}

/* The node whose chunk comes as that one of a round; 0: this one's own. */
static int node_at(const struct ring *ring, int turn)
{
	return (ring->me - turn + ring->n) % ring->n;
}

static int receive(struct ring *ring, int node, int round)
{
	struct chunk c = chunk_of(ring, node, round);

	ring->coming[node] = MPI_REQUEST_NULL;
	if (!c.size)
		return 0;
	return mpi_check(MPI_Irecv(c.at, c.size, MPI_BYTE, ring->before,
				 node % TAGS, ring->comm, &ring->coming[node]),
		ring->who_before);
}

static int send_on(struct ring *ring, int node, int round)
{
	struct chunk c = chunk_of(ring, node, round);

	ring->going[node] = MPI_REQUEST_NULL;
	if (!c.size)
		return 0;
	return mpi_check(MPI_Isend(c.at, c.size, MPI_BYTE, ring->after,
				 node % TAGS, ring->comm, &ring->going[node]),
		ring->who_after);
}

/* MPI sends and receives only while it is called. */
static int wait_for_disk(struct ring *ring)
{
	int flag;

	reader_work(&ring->reader, DISK_MS);
	MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, ring->comm, &flag,
		MPI_STATUS_IGNORE);
	if (!mpi_deadline_passed(&ring->deadline))
		return 0;
	return tarn_error_set(ETIMEDOUT,
		"%s: the disk of %s did not answer within %g s",
		ring->deadline.verb, tarn_file_path(ring->reader.source->file),
		ring->deadline.seconds);
}

/* Until this node's own chunk is there. */
static int await_chunk(struct ring *ring, int round)
{
	int r = 0;

	if (!chunk_of(ring, ring->me, round).size)
		return 0;
	while (r >= 0 && !reader_has(&ring->reader, round))
		r = wait_for_disk(ring);
	return r;
}

/* After an error reads may be under way still, into memory that is to be freed. */
static int await_reads(struct ring *ring)
{
	int r = 0;

	while (r >= 0 && ring->reader.under_way)
		r = wait_for_disk(ring);
	return r;
}

static int one_round(struct ring *ring, int round)
{
	int r = 0;

	for (int t = 1; r >= 0 && t < ring->n; t++)
		r = receive(ring, node_at(ring, t), round);
	if (r >= 0)
		r = await_chunk(ring, round);
	for (int t = 0; r >= 0 && t < ring->n; t++) {
		int node = node_at(ring, t);

		if (t)
			r = mpi_wait(&ring->coming[node], &ring->deadline,
				ring->who_before);
		/* The last one was begun by the node that would get it. */
		if (r >= 0 && t < ring->n - 1)
			r = send_on(ring, node, round);
	}
	for (int t = 0; r >= 0 && t < ring->n - 1; t++)
		r = mpi_wait(&ring->going[node_at(ring, t)], &ring->deadline,
			ring->who_after);
	return r;
}

static void read_on(void *arg)
{
	reader_work(arg, 0);
}

static int ring_begin(struct ring *ring, tarn_tensor *memory, MPI_Comm comm,
	const struct nodes *nodes, const struct mpi_deadline *deadline)
{
	*ring = (struct ring) {.comm = comm,
		.me = nodes->me,
		.n = nodes->n,
		.before = nodes->before,
		.after = nodes->after,
		.bytes = tarn_tensor_data(memory),
		.size = (uint64_t)tarn_tensor_layout(memory)->shape[0],
		.deadline = *deadline};
	snprintf(ring->who_before, sizeof(ring->who_before), "rank %d",
		ring->before);
	snprintf(ring->who_after, sizeof(ring->who_after), "rank %d",
		ring->after);
	ring->coming = calloc((size_t)ring->n, sizeof(*ring->coming));
	ring->going = calloc((size_t)ring->n, sizeof(*ring->going));
	if (ring->coming && ring->going)
		return 0;
	free(ring->coming);
	free(ring->going);
	return tarn_error_set(ENOMEM, "out of memory");
}

int ring_fill(const struct source *source, tarn_tensor *memory, MPI_Comm comm,
	const struct nodes *nodes, const struct mpi_deadline *deadline,
	struct said *said, uint64_t *ret_read)
{
	struct ring ring;
	int r = ring_begin(&ring, memory, comm, nodes, deadline), rounds;

	if (r < 0)
		return r;
	rounds = count_rounds(&ring);
	reader_begin(&ring.reader, source, memory, part_begin(&ring, ring.me),
		part_begin(&ring, ring.me + 1), said);
	ring.deadline.meanwhile = read_on;
	ring.deadline.arg = &ring.reader;
	for (int i = 0; r >= 0 && i < rounds; i++)
		r = one_round(&ring, i);
	if (r >= 0)
		r = await_reads(&ring);
	*ret_read = ring.reader.bytes;
	reader_end(&ring.reader, r < 0);
	if (r < 0)
		return r;
	free(ring.coming);
	free(ring.going);
	return 0;
}
