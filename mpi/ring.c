// SPDX-License-Identifier: MIT
/*
 * The ring. In each step every node sends the next chunk of its part to the next node,
 * and passes on what came from the one before in the step before, which has had a
 * chunk's time for its way: so each link carries every chunk once, and is never idle.
 * Receives are begun some steps ahead. Meanwhile the next chunks are read.
 *
 * A chunk that goes around in round R, and comes as that of turn T, is sent on in step
 * R + T; 0 is the turn of a node's own.
 */
#include "mpi/ring.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <tarn/publish.h>

#include "base/checked.h"
#include "base/page.h"
#include "mpi/reader.h"

#define TAGS 32768 /* MPI promises tags below this; messages keep their order */
#define DISK_MS 1  /* between two looks at the network; picked */

/* Steps whose chunks may be under way. Picked: for links with a queue of 50 ms. */
#define AHEAD 4
#define ROUNDS (2 * AHEAD) /* so that none of them has chunks of two rounds */

struct ring {
	MPI_Comm comm;
	int me, n; /* nodes */
	int rounds;
	int before, after; /* ranks */
	tarn_tensor *memory;
	char *bytes;   /* of memory */
	uint64_t size; /* of it */
	char *nowhere; /* chunks of all nodes and some rounds, once memory has
			* run out */
	struct reader reader;
	struct mpi_deadline deadline;
	struct said *said;
	MPI_Request *coming[AHEAD],
		*going[AHEAD]; /* of a step, by their turn */
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
	char *at;

	if (begin >= end)
		return (struct chunk) {0};
	at = ring->bytes + begin;
	if (ring->nowhere)
		at = ring->nowhere +
		     (uint64_t)(round % ROUNDS * ring->n + node) * CHUNK;
	return (struct chunk) {.at = at, .size = (int)MIN(end - begin, CHUNK)};
}

static size_t nowhere_size(const struct ring *ring)
{
	return (size_t)ring->n * ROUNDS * CHUNK;
}

/* Memory that has run out is an error of this node's; the ring goes on, with chunks
 * that come to no use. */
static int go_nowhere(struct ring *ring, int error)
{
	char *at = mmap(NULL, nowhere_size(ring), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	said_failed(ring->said, error);
	if (at == MAP_FAILED)
		return error;
	ring->nowhere = at;
	return 0;
}

/* The memory of a chunk that is about to come. */
static int take(struct ring *ring, const struct chunk *c)
{
	tarn_tensor *part = NULL;
	int r;

	if (ring->nowhere)
		return 0;
	r = tarn_tensor_narrow(
		ring->memory, 0, c->at - ring->bytes, c->size, &part);
	if (r >= 0)
		r = tarn_tensor_take(part);
	tarn_tensor_unref(part);
	return r < 0 ? go_nowhere(ring, r) : 0;
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

static int receive(struct ring *ring, int turn, int round, MPI_Request *ret)
{
	int node = node_at(ring, turn), r;
	struct chunk c = chunk_of(ring, node, round);

	if (!c.size)
		return 0;
	r = take(ring, &c);
	if (r < 0)
		return r;
	c = chunk_of(ring, node, round);
	return mpi_check(MPI_Irecv(c.at, c.size, MPI_BYTE, ring->before,
				 node % TAGS, ring->comm, ret),
		ring->who_before);
}

static int send_on(struct ring *ring, int turn, int round, MPI_Request *ret)
{
	int node = node_at(ring, turn);
	struct chunk c = chunk_of(ring, node, round);

	if (!c.size)
		return 0;
	return mpi_check(MPI_Isend(c.at, c.size, MPI_BYTE, ring->after,
				 node % TAGS, ring->comm, ret),
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

/* Is there a round of which a turn's chunk is sent on in a step? */
static bool has_round(const struct ring *ring, int step, int turn)
{
	return step >= turn && step - turn < ring->rounds;
}

/* What the node before sends in a step, in that order. */
static int receive_step(struct ring *ring, int step)
{
	int r = 0;

	for (int t = 0; r >= 0 && t < ring->n - 1; t++)
		if (has_round(ring, step, t))
			r = receive(ring, t + 1, step - t,
				&ring->coming[step % AHEAD][t + 1]);
	return r;
}

static int wait_all(struct ring *ring, MPI_Request *requests, const char *who)
{
	int r = 0;

	for (int t = 0; r >= 0 && t < ring->n; t++)
		if (requests[t] != MPI_REQUEST_NULL)
			r = mpi_wait(&requests[t], &ring->deadline, who);
	return r;
}

/* What came in the step before is there after this one. */
static int one_step(struct ring *ring, int step)
{
	MPI_Request *came = ring->coming[(step + AHEAD - 1) % AHEAD];
	MPI_Request *going = ring->going[step % AHEAD];
	int r = wait_all(ring, going, ring->who_after);

	if (r >= 0 && step < ring->rounds)
		r = await_chunk(ring, step);
	for (int t = 0; r >= 0 && t < ring->n - 1; t++) {
		if (!has_round(ring, step, t))
			continue;
		if (came[t] != MPI_REQUEST_NULL)
			r = mpi_wait(
				&came[t], &ring->deadline, ring->who_before);
		if (r >= 0)
			r = send_on(ring, t, step - t, &going[t]);
	}
	if (r >= 0)
		r = wait_all(ring, came, ring->who_before);
	return r < 0 ? r : receive_step(ring, step + AHEAD - 1);
}

static int all_steps(struct ring *ring)
{
	int r = 0;

	for (int i = 0; r >= 0 && i < AHEAD - 1; i++)
		r = receive_step(ring, i);
	for (int i = 0; r >= 0 && i < ring->rounds + ring->n - 1; i++)
		r = one_step(ring, i);
	for (int i = 0; r >= 0 && i < AHEAD; i++)
		r = wait_all(ring, ring->going[i], ring->who_after);
	return r;
}

static void read_on(void *arg)
{
	reader_work(arg, 0);
}

/* Of a ring that has ended. */
static void ring_end(struct ring *ring)
{
	for (int i = 0; i < AHEAD; i++) {
		free(ring->coming[i]);
		free(ring->going[i]);
	}
	if (ring->nowhere)
		munmap(ring->nowhere, nowhere_size(ring));
}

static MPI_Request *no_requests(int n)
{
	MPI_Request *found = calloc((size_t)n, sizeof(*found));

	for (int i = 0; found && i < n; i++)
		found[i] = MPI_REQUEST_NULL;
	return found;
}

static int ring_begin(struct ring *ring, tarn_tensor *memory, MPI_Comm comm,
	const struct nodes *nodes, const struct mpi_deadline *deadline)
{
	bool there = true;

	*ring = (struct ring) {.comm = comm,
		.me = nodes->me,
		.n = nodes->n,
		.before = nodes->before,
		.after = nodes->after,
		.memory = memory,
		.bytes = tarn_tensor_data(memory),
		.size = (uint64_t)tarn_tensor_layout(memory)->shape[0],
		.deadline = *deadline};
	ring->rounds = count_rounds(ring);
	snprintf(ring->who_before, sizeof(ring->who_before), "rank %d",
		ring->before);
	snprintf(ring->who_after, sizeof(ring->who_after), "rank %d",
		ring->after);
	for (int i = 0; i < AHEAD; i++) {
		ring->coming[i] = no_requests(ring->n);
		ring->going[i] = no_requests(ring->n);
		there = there && ring->coming[i] && ring->going[i];
	}
	if (there)
		return 0;
	ring_end(ring);
	return tarn_error_set(ENOMEM, "out of memory");
}

/* What no chunk has: gaps between the tensors. */
static void take_rest(struct ring *ring)
{
	int r = ring->said->error ? 0 : tarn_tensor_take(ring->memory);

	if (r < 0)
		said_failed(ring->said, r);
}

int ring_fill(const struct source *source, tarn_tensor *memory, MPI_Comm comm,
	const struct nodes *nodes, const struct mpi_deadline *deadline,
	struct said *said, uint64_t *ret_read)
{
	struct ring ring;
	int r = ring_begin(&ring, memory, comm, nodes, deadline);

	if (r < 0)
		return r;
	reader_begin(&ring.reader, source, memory, part_begin(&ring, ring.me),
		part_begin(&ring, ring.me + 1), said);
	ring.said = said;
	ring.deadline.meanwhile = read_on;
	ring.deadline.arg = &ring.reader;
	r = all_steps(&ring);
	if (r >= 0)
		r = await_reads(&ring);
	*ret_read = ring.reader.bytes;
	reader_end(&ring.reader, r < 0);
	if (r < 0)
		return r;
	take_rest(&ring);
	ring_end(&ring);
	return 0;
}
