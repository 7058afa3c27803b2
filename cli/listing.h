/* SPDX-License-Identifier: MIT */
/* A list of tensors, from a file or of published names, for people and as
 * JSON. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <tarn/file.h>
#include <tarn/node.h>
#include <tarn/store.h>
#include <tarn/tensor.h>

#define NODE_UNKNOWN (-2)

struct entry {
	char *name;
	uint64_t bytes;
	uint64_t file_offset;
	char *file; /* of an index: the shard that it is in; else NULL */
	int dtype, ndim;
	bool channel; /* it is no tensor: ignore its descriptor */
	struct tarn_tensor_pages pages; /* page_size 0: not known */
	int node;                       /* or TARN_NODE_SEVERAL; NODE_UNKNOWN */
	uint64_t nodes;                 /* also of its replicas; a bit each */
	uint8_t device[16];             /* the UUID of its device */
	uint64_t device_bytes;          /* of its storage there; 0: none */
	uint64_t shape[];
};

/* Begins as zeroes. */
struct listing {
	struct entry **at;
	size_t n, size;
	/* Of published tensors, pages and nodes: set it before they are added. */
	bool with_details;
};

void listing_free(struct listing *listing);
#define _cleanup_listing_ __attribute__((__cleanup__(listing_free)))

/* All tensors of a file, in its order. */
void listing_add_file(struct listing *listing, const tarn_file *file);

/* Published names, sorted: those that begin with prefix (NULL: all), or, if
 * whole, only prefix itself and what is below it as a folder. 0, or -errno
 * after saying why. */
int listing_add_store(struct listing *listing, tarn_store *store,
	const char *prefix, bool whole);

/* Of the tensors. */
uint64_t listing_bytes(const struct listing *listing);

/* How many of them are channels. */
size_t listing_channels(const struct listing *listing);

/* A row each: name, dtype, shape, size, with_details also these; indented so
 * far. */
void listing_print(const struct listing *listing, int indent);

/* An array of objects; with_offset adds file_offset, null for published
 * ones. */
json_t *listing_json(
	const struct listing *listing, bool with_offset, bool published);
