/* SPDX-License-Identifier: MIT */
/*
 * Looks at a control region once, in the thread of its only writer, between two
 * transactions. Nothing changes meanwhile, so every difference is a fault.
 */
#include "shm/table_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "shm/record.h"

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

/* ---- the region ---------------------------------------------------- */

/* Between transactions none is pending. */
static void check_completions(const struct table *table, struct faults *faults)
{
	uint64_t committed = atomic_load_explicit(
		&table->header->committed, memory_order_relaxed);
	uint32_t n = atomic_load_explicit(
		&table->header->n_completions, memory_order_relaxed);

	if (n > TABLE_COMPLETIONS_MAX)
		return fault_add(faults,
			"header: %u completions are in use, of %u", n,
			TABLE_COMPLETIONS_MAX);
	for (uint32_t i = 0; i < n; i++) {
		const struct table_completion *c = &table->completions[i];
		uint64_t commit =
			atomic_load_explicit(&c->commit, memory_order_relaxed);

		if (commit > committed)
			fault_add(faults,
				"completion %u: commit %llu is above %llu, the "
				"last one",
				i, (unsigned long long)commit,
				(unsigned long long)committed);
		else if (commit && !c->request.client)
			fault_add(faults, "completion %u: of no client", i);
	}
}

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

int table_check(const struct table *table, table_fits_fn fits,
	struct faults *faults, struct table_tally *ret)
{
	int r;

	*ret = (struct table_tally) {0};
	check_header(table, faults);
	check_completions(table, faults);
	r = check_storages(table, faults, ret);
	/* Relaxed: the writer's own thread. */
	if (atomic_load_explicit(
		    &table->header->restructuring, memory_order_relaxed) &
		1)
		fault_add(faults,
			"header: restructuring is odd: names may be missed");
	if (r >= 0)
		r = check_names(table, fits, faults, ret);
	return r;
}
