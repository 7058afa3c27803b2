/* SPDX-License-Identifier: MIT */
/*
 * Checks a control region. There is one line for each fault.
 *
 * The region must not change meanwhile: the server checks it between two
 * transactions, a test when there is no writer.
 */
#pragma once

#include "base/cleanup.h"
#include "shm/table.h"

#define FAULTS_MAX 256u /* lines; further faults are only counted */

struct faults {
	char *lines[FAULTS_MAX];
	uint32_t n;
	uint64_t n_more; /* beyond FAULTS_MAX, or for lack of memory */
};

void fault_add(struct faults *faults, const char *fmt, ...) _printf_(2, 3);
void faults_clear(struct faults *faults);

/* The number of things checked. */
struct table_tally {
	uint64_t names;
	uint64_t storages;
	uint64_t bytes; /* their sizes */
};

/* Checks that a descriptor and the entry of its storage agree, and that all
 * that it reaches lies in the storage: 0, or an error with a sentence
 * (base/fail.h). */
typedef int (*table_fits_fn)(const struct table *table,
	const struct tarn_descriptor *descriptor,
	const struct table_storage *entry);

/*
 * Adds the faults that it finds, and counts what it checks. fits NULL: the
 * targets of names are not checked. -ENOMEM: there is no memory for the check.
 */
int table_check(const struct table *table, table_fits_fn fits,
	struct faults *faults, struct table_tally *ret);

/* table_check_names.c, table_check_storages.c: parts of it */
int check_names(const struct table *table, table_fits_fn fits,
	struct faults *faults, struct table_tally *tally);
int check_storages(const struct table *table, struct faults *faults,
	struct table_tally *tally);
