/* SPDX-License-Identifier: MIT */
/* The tensors that an address stands for: all of a FILE, FILE:TENSOR, or a
 * published name. */
#pragma once

#include <tarn/file.h>
#include <tarn/store.h>

struct source_one {
	const char *name;
	tarn_tensor *tensor;
	bool summed; /* it should have the checksum */
	uint64_t checksum;
};

/* Begins as zeroes. */
struct source {
	struct source_one *at;
	size_t n;
	/* the tensor was asked for by itself, or there is no other */
	bool alone;
	tarn_file *file; /* NULL: published */
	tarn_store *store;
	char *path; /* what names are part of */
};

void source_free(struct source *source);
#define _cleanup_source_ __attribute__((__cleanup__(source_free)))

/* A file is looked for first, and needs no daemon. Exit status, after saying
 * what is wrong. */
int source_open(const char *address, const char *socket, struct source *ret);

/* Those of the tensors that the file has, into at[].checksum. Exit status. */
int source_read_checksums(struct source *source);
