/* SPDX-License-Identifier: MIT */
/*
 * Is a control region as it must be? Looked at from outside, through any
 * mapping, a read-only one too, of a store that lives or whose server died.
 *
 * What is found is one line each, a fault. While a server writes, a look may
 * see what is just being changed; a fault is what several looks, some time
 * apart, all see, and of names only looks without a commit in their middle
 * count. In the writer's own thread one look is enough.
 */
#pragma once

#include "base/cleanup.h"
#include "shm/table.h"

#define FAULTS_MAX 256u /* lines; what is beyond is counted */

struct faults {
	char *lines[FAULTS_MAX];
	uint32_t n;
	uint64_t n_more; /* beyond FAULTS_MAX, or for want of memory */
};

void fault_add(struct faults *faults, const char *fmt, ...) _printf_(2, 3);
/* Only those that the other has too. */
void faults_keep_common(struct faults *faults, const struct faults *other);
void faults_clear(struct faults *faults);

/* What was looked at. */
struct table_tally {
	uint64_t names;
	uint64_t storages;
	uint64_t bytes; /* their sizes */
};

/* Says whether a descriptor and the entry of its storage agree, and all that
 * it reaches lies in the storage: 0, or a sentence (base/fail.h). */
typedef int (*table_fits_fn)(const struct table *table,
	const struct tarn_descriptor *descriptor,
	const struct table_storage *entry);

/*
 * Looks so many times, as long as there are faults, and adds those that all
 * looks have found. fits NULL: where names lead is not looked at. -ENOMEM
 * when there is no room to look.
 */
int table_check(const struct table *table, table_fits_fn fits, unsigned looks,
	struct faults *faults, struct table_tally *ret);

/* table_check_names.c, table_check_storages.c: one look at a part of it */
int check_names(const struct table *table, table_fits_fn fits,
	struct faults *faults, struct table_tally *tally);
int check_storages(const struct table *table, struct faults *faults,
	struct table_tally *tally);
