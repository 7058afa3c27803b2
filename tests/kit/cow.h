/* SPDX-License-Identifier: MIT */
/*
 * Tensors whose bytes are known, and private ones over them. A call that must
 * succeed bails out if it fails.
 */
#pragma once

#include <stdint.h>

#include <tarn/tarn.h>

#include "tests/kit/daemon_helper.h"

#define MIB (1ull << 20)
#define SEGMENT (8 * MIB)
#define BIG (20 * MIB) /* of segments: more than two */
#define PATIENCE_US 60000000

/* A daemon of 64 MiB in such segments, and a connection to it. */
extern struct daemon kit_cow_daemon;
extern tarn_store *kit_cow_store;
void kit_cow_begin(void);

void kit_cow_check(int r, const char *what);

/* No period that a lost page would fit. */
unsigned char kit_cow_byte(uint64_t i, unsigned seed);

/* A safetensors file with one tensor "x" of such bytes. Its path, static until
 * the next. */
const char *kit_cow_file(const char *name, uint64_t size, unsigned seed);
tarn_file *kit_cow_open_file(const char *path);
/* That, loaded into the pool; the file is gone. */
tarn_tensor *kit_cow_loaded(const char *name, uint64_t size, unsigned seed);
/* Created with those flags, and published. */
tarn_tensor *kit_cow_published(
	const char *name, uint64_t size, unsigned flags, unsigned seed);

tarn_tensor *kit_cow_of(tarn_tensor *t);
void kit_cow_drop(tarn_tensor **t);
unsigned char *kit_cow_data(const tarn_tensor *t);
/* The first byte that is not as in the file; -1. */
int64_t kit_cow_differs(const tarn_tensor *t, uint64_t size, unsigned seed);
