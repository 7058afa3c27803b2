/* SPDX-License-Identifier: MIT */
/*
 * Patches: the memfd of a storage that is another one, but for some pages.
 *
 *	pages | runs | zeros | foot
 *
 * Pages are of 4,096 bytes, and counted from the one on in which the first byte
 * of the storage below lies: a storage in a pool may begin inside a page. Runs
 * are in order, and no page is in two of them. The memfd is sealed against
 * writing before another process sees it, so what was checked once stays so; its
 * publisher is not trusted.
 */
#pragma once

#include <assert.h>
#include <stdint.h>

#define PATCH_MAGIC 0x68637461706e7274ull /* "trnpatch" */
#define PATCH_VERSION 1u
#define PATCH_PAGE 4096u
/* A mapping each in every process that reads it, of 65,530 that one may have. */
#define PATCH_RUNS_MAX 4096u

struct patch_run {
	uint32_t first; /* page of the storage */
	uint32_t n;
	uint32_t at; /* page of the memfd */
};

/* The last bytes of the memfd. */
struct patch_foot {
	uint32_t n_pages;
	uint32_t n_runs; /* 1 to PATCH_RUNS_MAX */
	uint32_t version;
	uint32_t pad; /* 0 */
	uint64_t magic;
};

static_assert(sizeof(struct patch_run) == 12, "fixed");
static_assert(sizeof(struct patch_foot) == 24, "fixed");

struct patch {
	uint32_t n_pages;
	uint32_t n_runs;
	struct patch_run *runs;
};

/* Bytes of a memfd with so many: whole pages. */
uint64_t patch_size(uint32_t n_pages, uint32_t n_runs);

/* Reads what a sealed memfd says, for a storage that reaches into so many pages.
 * -EPROTO: it makes no sense. ret->runs is the caller's to free. */
int patch_read(int fd, uint64_t pages, struct patch *ret);
