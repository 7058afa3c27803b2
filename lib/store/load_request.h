/* SPDX-License-Identifier: MIT */
/* What the daemon needs to know to load a file: a message and descriptors. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarn/file.h>

struct load_request {
	unsigned char *body;
	size_t size;
	size_t since_at; /* where since is in it; 0: none */
	uint64_t total; /* bytes to be loaded */
	int fds[2];	/* buffered, and, if there are two, direct */
	int n_fds;
};

/* name: the prefix under which all tensors are published, or NULL. since: the
 * daemon understands it. */
int load_request_make(const tarn_file *file, const char *name, bool since,
	struct load_request *ret);
void load_request_free(struct load_request *request);
