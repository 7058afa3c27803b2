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
struct cli_source {
	struct source_one *at;
	size_t n;
	/* the tensor was asked for by itself, or there is no other */
	bool alone;
	tarn_file *file; /* NULL: published */
	tarn_store *store;
	char *path; /* what names are part of */
};

void cli_source_free(struct cli_source *source);
#define _cleanup_cli_source_ __attribute__((__cleanup__(cli_source_free)))

/* A file is looked for first, and needs no daemon. Exit status, after saying
 * what is wrong. */
int cli_source_open(
	const char *address, const char *socket, struct cli_source *ret);

/* Those of the tensors that the file has, into at[].checksum. Exit status. */
int cli_source_read_checksums(struct cli_source *source);
