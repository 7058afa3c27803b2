/* SPDX-License-Identifier: MIT */
/*
 * Looks at a control region, and keeps what several looks agree on.
 *
 * The idea: nothing is locked and nobody is stopped. A region that is being
 * written shows faults for a moment, which are gone at the next look; one that
 * is damaged shows the same at each. Of names, which come and go at the same
 * places, only those looks count during which no transaction ended; who never
 * rests long enough has to be asked himself, as a server can be.
 */
#include "shm/table_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/fail.h"
#include "shm/record.h"

/* Longer than any transaction of a server that is not starved; picked. */
#define NAP_NS 30000000

/* ---- lists of faults -------------------------------------------------- */

void fault_add(struct faults *faults, const char *fmt, ...)
{
	char *line = NULL;
	va_list ap;

	if (faults->n == FAULTS_MAX) {
		faults->n_more++;
		return;
	}
	va_start(ap, fmt);
	if (vasprintf(&line, fmt, ap) < 0)
		line = NULL;
	va_end(ap);
	if (line)
		faults->lines[faults->n++] = line;
	else
		faults->n_more++;
}

void faults_clear(struct faults *faults)
{
	while (faults->n)
		free(faults->lines[--faults->n]);
	faults->n_more = 0;
}

static bool has(const struct faults *faults, const char *line)
{
	for (uint32_t i = 0; i < faults->n; i++)
		if (strcmp(faults->lines[i], line) == 0)
			return true;
	return false;
}

void faults_keep_common(struct faults *faults, const struct faults *other)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < faults->n; i++) {
		if (has(other, faults->lines[i]))
			faults->lines[kept++] = faults->lines[i];
		else
			free(faults->lines[i]);
	}
	faults->n = kept;
	faults->n_more = MIN(faults->n_more, other->n_more);
}

/* ---- looks ------------------------------------------------------------ */

static void check_header(const struct table *table, struct faults *faults)
{
	const struct table_header *h = table->header;

	if (h->magic != TABLE_MAGIC || h->version != TABLE_VERSION ||
		h->signature != table_signature())
		fault_add(faults, "header: it is no longer that of a table");
	if (h->instance != table->instance || h->hash_seed != table->hash_seed)
		fault_add(faults, "header: the instance or the seed changed");
	if (h->pools_offset != (uint64_t)((unsigned char *)table->pools -
					  table->map) ||
		h->records_offset != table->records_offset ||
		h->total_size != table->size)
		fault_add(faults, "header: the geometry changed");
}

/* What one look has seen. */
struct look {
	struct faults lasting; /* such as no transaction shows */
	struct faults names;   /* that may be seen in the middle of one */
	bool quiet;            /* none ended meanwhile */
};

struct moment {
	uint64_t committed;
	uint32_t restructuring;
	uint32_t changed;
};

static struct moment moment(const struct table *table)
{
	const struct table_header *h = table->header;

	return (struct moment) {
		/* Acquire: pairs with the release stores in table_commit. */
		.committed = atomic_load_explicit(
			&h->committed, memory_order_acquire),
		.restructuring = atomic_load_explicit(
			&h->restructuring, memory_order_acquire),
		.changed =
			atomic_load_explicit(&h->changed, memory_order_acquire),
	};
}

static bool same(struct moment a, struct moment b)
{
	return a.committed == b.committed && a.changed == b.changed &&
	       a.restructuring == b.restructuring;
}

static int look_once(const struct table *table, table_fits_fn fits,
	struct look *look, struct table_tally *tally)
{
	struct moment before = moment(table);
	int r;

	*tally = (struct table_tally) {0};
	check_header(table, &look->lasting);
	r = check_storages(table, &look->lasting, tally);
	if (before.restructuring & 1)
		fault_add(&look->names,
			"header: restructuring is odd: names may be missed");
	if (r >= 0)
		r = check_names(table, fits, &look->names, tally);
	/* Pairs with the release fence in version_write and the release store
	 * in table_commit: who has read what came after one sees it counted. */
	atomic_thread_fence(memory_order_acquire);
	look->quiet = same(before, moment(table));
	return r;
}

static void look_clear(struct look *look)
{
	faults_clear(&look->lasting);
	faults_clear(&look->names);
}

/* Into all, what both have seen; of names, if it could. */
static void compare(struct look *all, struct look *again)
{
	faults_keep_common(&all->lasting, &again->lasting);
	if (all->quiet && again->quiet) {
		faults_keep_common(&all->names, &again->names);
	} else if (again->quiet) {
		faults_clear(&all->names);
		all->names = again->names;
		again->names = (struct faults) {0};
		all->quiet = true;
	}
}

static void hand_over(struct faults *to, const struct faults *from)
{
	for (uint32_t i = 0; i < from->n; i++)
		fault_add(to, "%s", from->lines[i]);
	to->n_more += from->n_more;
}

static bool is_clean(const struct look *look)
{
	return !look->lasting.n && !look->lasting.n_more && !look->names.n &&
	       !look->names.n_more;
}

int table_check(const struct table *table, table_fits_fn fits, unsigned looks,
	struct faults *faults, struct table_tally *ret)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	struct look all = {0};
	unsigned n_quiet;
	int r = look_once(table, fits, &all, ret);

	n_quiet = all.quiet;
	for (unsigned i = 1; i < looks && r >= 0 && !is_clean(&all); i++) {
		struct look again = {0};

		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
		r = look_once(table, fits, &again, ret);
		n_quiet += again.quiet;
		if (r >= 0)
			compare(&all, &again);
		look_clear(&again);
	}
	if (r >= 0) {
		hand_over(faults, &all.lasting);
		/* A single one may be of a writer that was held up. */
		if (n_quiet >= MIN(looks, 2u))
			hand_over(faults, &all.names);
	}
	look_clear(&all);
	return r;
}
