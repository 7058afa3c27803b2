/* SPDX-License-Identifier: MIT */
/* A load request for the daemon: a message and descriptors. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarn/file.h>

struct load_request {
	unsigned char *body;
	size_t size;
	uint64_t total; /* bytes to be loaded */
	int fds[2];     /* buffered, and, if there are two, direct */
	int n_fds;
};

/* name: the prefix under which all tensors are published, or NULL. fresh: the
 * file is read even if its bytes are kept. place: own_place_wish(). */
int load_request_make(const tarn_file *file, const char *name, bool fresh,
	uint32_t place, struct load_request *ret);
void load_request_free(struct load_request *request);
