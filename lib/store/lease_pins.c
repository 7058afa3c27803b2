/* SPDX-License-Identifier: MIT */
/*
 * Does a child of a fork still live?
 *
 * A pipe tells it: the child has the only write end, and its own children
 * inherit that with the memory that they read. The kernel closes it when the
 * last of them ends, or executes a program and so gives up that memory. The
 * parent has the read end, so it need not know their pids, and no signal is
 * taken from anybody.
 */
#include "lib/store/lease_book_internal.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"

/* ---- the pipe --------------------------------------------------------- */

struct lease_pin *lease_pin_new(uint32_t n)
{
	struct lease_pin *pin =
		malloc(sizeof(*pin) + n * sizeof(pin->words[0]));
	int ends[2];

	if (!pin || pipe2(ends, O_CLOEXEC) < 0) {
		free(pin);
		return NULL;
	}
	/* Not 0 to 2, which a program without them may put another file in. */
	*pin = (struct lease_pin) {
		.end = fd_dup(ends[0]), .child_end = fd_dup(ends[1])};
	fd_close(ends[0]);
	fd_close(ends[1]);
	return pin->end < 0 || pin->child_end < 0 ? lease_pin_free(pin) : pin;
}

struct lease_pin *lease_pin_free(struct lease_pin *pin)
{
	if (!pin)
		return NULL;
	fd_close(pin->end);
	fd_close(pin->child_end);
	free(pin);
	return NULL;
}

static bool is_over(const struct lease_pin *pin)
{
	struct pollfd p = {.fd = pin->end};

	return poll(&p, 1, 0) == 1 && p.revents & POLLHUP;
}

/* ---- the book --------------------------------------------------------- */

bool lease_is_held_here(const struct lease_entry *entry)
{
	return entry->word && entry->count > entry->pins;
}

void lease_pins_free(struct lease_book *book)
{
	struct lease_pin *pin = atomic_load(&book->pins), *next;

	atomic_store(&book->pins, NULL);
	for (; pin; pin = next) {
		next = pin->next;
		lease_pin_free(pin);
	}
}

/*
 * The child reads by these leases, and tells nobody when it drops a tensor. To
 * release one while the child may read would be wrong bytes, so each of them is
 * held once more, on behalf of the child: as a whole, until the child's end. It
 * costs memory that the child has dropped, but no more than the parent had open
 * at the fork, and no longer than the child lives.
 */
void lease_book_leave(struct lease_book *book, struct lease_pin *pin)
{
	for (uint32_t i = 0; book->n_used && i < book->capacity; i++) {
		struct lease_entry *entry = &book->entries[i];

		/* What only other children read, this one has no tensor of. */
		if (!lease_is_held_here(entry))
			continue;
		entry->count++;
		entry->pins++;
		if (pin)
			pin->words[pin->n++] = entry->word;
	}
	if (!pin)
		return;
	/* Else this process would keep itself waiting. */
	pin->child_end = fd_close(pin->child_end);
	pin->next = atomic_load(&book->pins);
	atomic_store(&book->pins, pin);
}

static bool unpin(struct lease_book *book, const struct table *table,
	const struct lease_pin *pin)
{
	bool ring = false;

	for (uint32_t i = 0; i < pin->n; i++) {
		struct lease_entry *entry =
			lease_book_find(book, pin->words[i]);

		if (!entry->word)
			continue;
		entry->pins--;
		ring |= lease_book_drop_hold(book, table, entry);
	}
	return ring;
}

bool lease_book_unpin(struct lease_book *book, const struct table *table)
{
	struct lease_pin **p, *pin, *pins;
	bool ring = false;

	/* Relaxed: what another thread adds just now is found the next time. */
	if (!atomic_load_explicit(&book->pins, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&book->lock);
	pins = atomic_load(&book->pins);
	for (p = &pins; (pin = *p);) {
		if (!is_over(pin)) {
			p = &pin->next;
			continue;
		}
		*p = pin->next;
		ring |= unpin(book, table, pin);
		lease_pin_free(pin);
	}
	atomic_store(&book->pins, pins);
	pthread_mutex_unlock(&book->lock);
	return ring;
}

/* When an erased entry makes a later one move to a place that was looked at, it
 * is looked at again there; one that comes from a place before has no pins any
 * more. */
void lease_pins_forget(struct lease_book *book)
{
	lease_pins_free(book);
	for (uint32_t i = 0; book->n_used && i < book->capacity; i++)
		while (book->entries[i].pins) {
			struct lease_entry *entry = &book->entries[i];

			entry->count -= entry->pins;
			entry->pins = 0;
			if (!entry->count)
				lease_book_erase(book, entry);
		}
}
