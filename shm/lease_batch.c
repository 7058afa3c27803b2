/* SPDX-License-Identifier: MIT */
/*
 * Searching for many leases in one pass.
 *
 * A server that frees a thousand storages must not read all clients' pages a
 * thousand times. The wanted words go into a hash table, and each slot of each
 * page is looked up in it once. So the cost of a pass depends on the pages, and
 * hardly on the size of the batch.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/checked.h"
#include "base/fail.h"
#include "shm/lease.h"

#define FIRST_CAPACITY                                                         \
	64u                      /* a quarter of a page: most batches hold
				  * one */
#define KEPT_CAPACITY 4096u      /* 64 KiB: memory kept between two batches */
#define SPARSE 16u               /* words for each one wanted: too large */
#define LAST_CAPACITY (1u << 20) /* 16 MiB; then a second pass is cheap */

/* Clients choose the words: which storages are freed together, and what lies in
 * their pages. If they knew the hash, they could make the table a list. */
static uint64_t secret(void)
{
	uint64_t bits = 0;

	if (getrandom(&bits, sizeof(bits), 0) != sizeof(bits))
		bits = (uintptr_t)&bits; /* the kernel chose that */
	return bits | 1;
}

int lease_batch_init(struct lease_batch *batch)
{
	*batch = (struct lease_batch) {
		.capacity = FIRST_CAPACITY, .secret = secret()};
	batch->wanted = calloc(batch->capacity, sizeof(*batch->wanted));
	if (!batch->wanted)
		return tarn_fail(ENOMEM, "leases: out of memory");
	return 0;
}

void lease_batch_done(struct lease_batch *batch)
{
	free(batch->wanted);
	*batch = (struct lease_batch) {0};
}

/* Multiply-shift: the index sits in the low bits of a word and counts up, and
 * 20 of the product's upper bits are enough for LAST_CAPACITY. */
static struct lease_wanted *find(const struct lease_batch *batch, uint64_t word)
{
	uint32_t mask = batch->capacity - 1;
	uint32_t i = (uint32_t)(word * batch->secret >> 44) & mask;

	while (batch->wanted[i].word && batch->wanted[i].word != word)
		i = (i + 1) & mask;
	return &batch->wanted[i];
}

/* At most half full: most words that are looked up are not in the table, and
 * that should show at the first probe. */
static bool make_room(struct lease_batch *batch)
{
	struct lease_batch bigger = {.whose = batch->whose,
		.n = batch->n,
		.secret = batch->secret,
		.capacity = batch->capacity * 2};

	if ((batch->n + 1) * 2 <= batch->capacity)
		return true;
	if (bigger.capacity > LAST_CAPACITY)
		return false;
	bigger.wanted = calloc(bigger.capacity, sizeof(*bigger.wanted));
	if (!bigger.wanted)
		return false;
	for (uint32_t i = 0; i < batch->capacity; i++)
		if (batch->wanted[i].word)
			*find(&bigger, batch->wanted[i].word) =
				batch->wanted[i];
	free(batch->wanted);
	*batch = bigger;
	return true;
}

bool lease_batch_add(
	struct lease_batch *batch, uint32_t index, uint64_t generation)
{
	uint64_t word = lease_word(index, generation);

	if (find(batch, word)->word)
		return true;
	if (!make_room(batch))
		return false;
	*find(batch, word) = (struct lease_wanted) {
		.word = word, .sought = TABLE_NOBODY, .holder = TABLE_NOBODY};
	batch->n++;
	return true;
}

void lease_batch_seek(struct lease_batch *batch, uint32_t index,
	uint64_t generation, uint32_t uid)
{
	struct lease_wanted *wanted =
		find(batch, lease_word(index, generation));

	if (wanted->word)
		wanted->sought = uid;
}

void lease_batch_look(
	struct lease_batch *batch, const _Atomic uint64_t *words, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		/* Acquire: the holder's reads before its release come before
		 * the reuse; pairs with the release in lease_release. */
		uint64_t word =
			atomic_load_explicit(&words[i], memory_order_acquire);
		struct lease_wanted *wanted = find(batch, word);

		if (word && wanted->word &&
			(wanted->holder == TABLE_NOBODY ||
				wanted->sought == batch->whose))
			wanted->holder = batch->whose;
	}
}

void lease_batch_search(
	struct lease_batch *batch, const struct lease_page *page)
{
	uint32_t used;

	/* F2: pairs with the client's fence at A2. It is here and not at the
	 * callers, so that none of them can forget it. */
	atomic_thread_fence(memory_order_seq_cst);
	/* Relaxed: the fence makes every slot that counts visible. */
	used = atomic_load_explicit(&page->used, memory_order_relaxed);
	lease_batch_look(batch, page->slots, MIN(used, (uint32_t)LEASE_SLOTS));
}

void lease_batch_miss(
	struct lease_batch *batch, uint32_t index, uint64_t generation)
{
	struct lease_wanted *wanted =
		find(batch, lease_word(index, generation));

	if (wanted->word)
		wanted->holder = TABLE_NOBODY;
}

uint32_t lease_batch_holder(
	const struct lease_batch *batch, uint32_t index, uint64_t generation)
{
	const struct lease_wanted *wanted =
		find(batch, lease_word(index, generation));

	return wanted->word ? wanted->holder : TABLE_NOBODY;
}

bool lease_batch_found(
	const struct lease_batch *batch, uint32_t index, uint64_t generation)
{
	return lease_batch_holder(batch, index, generation) != TABLE_NOBODY;
}

/* A table that is much larger than this batch was made for an earlier one; to
 * clear it for each small one would cost more than all else. */
static bool too_large(const struct lease_batch *batch)
{
	return batch->capacity > KEPT_CAPACITY ||
	       (batch->capacity > FIRST_CAPACITY &&
		       batch->capacity / SPARSE > batch->n);
}

void lease_batch_clear(struct lease_batch *batch)
{
	struct lease_batch fresh;

	/* The next batch is likely to be small again. */
	if (too_large(batch) && lease_batch_init(&fresh) >= 0) {
		lease_batch_done(batch);
		*batch = fresh;
		return;
	}
	memset(batch->wanted, 0, batch->capacity * sizeof(*batch->wanted));
	batch->n = 0;
}
