/* SPDX-License-Identifier: MIT */
/* A load request for the daemon: a message and descriptors. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarn/store.h>

#include "shm/messages.h"

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

/*
 * Has the daemon do it: what it says of that, and the storage, which is held. Of
 * the options only progress and its arg are used. 1: it was done, but the
 * storage was gone again before it could be held.
 */
int store_load_request(tarn_store *store, const struct load_request *request,
	const struct tarn_load_options *options, struct msg_loaded *ret_loaded,
	tarn_storage **ret);
