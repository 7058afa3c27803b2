/* SPDX-License-Identifier: MIT */
/*
 * Looks at a control region, and keeps what several looks agree on.
 *
 * The idea: nothing is locked and nobody is stopped. A region that is being
 * written shows faults for a moment, which are gone or somewhere else at the
 * next look; one that is damaged shows the same at each.
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
	if (atomic_load_explicit(&h->restructuring, memory_order_relaxed) & 1)
		fault_add(faults,
			"header: restructuring is odd: names may be missed");
}

static int look(const struct table *table, table_fits_fn fits,
	struct faults *faults, struct table_tally *tally)
{
	int r;

	*tally = (struct table_tally) {0};
	check_header(table, faults);
	r = check_storages(table, faults, tally);
	if (r >= 0)
		r = check_names(table, fits, faults, tally);
	return r;
}

int table_check(const struct table *table, table_fits_fn fits, unsigned looks,
	struct faults *faults, struct table_tally *ret)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	struct faults all = {0};
	int r = look(table, fits, &all, ret);

	for (unsigned i = 1; i < looks && r >= 0 && all.n + all.n_more; i++) {
		struct faults again = {0};

		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
		r = look(table, fits, &again, ret);
		if (r >= 0)
			faults_keep_common(&all, &again);
		faults_clear(&again);
	}
	for (uint32_t i = 0; i < all.n && r >= 0; i++)
		fault_add(faults, "%s", all.lines[i]);
	if (r >= 0)
		faults->n_more += all.n_more;
	faults_clear(&all);
	return r;
}
