/* SPDX-License-Identifier: MIT */
/*
 * Killing the server of a daemon that runs, and files with bytes that show
 * whether other bytes were written over them.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <tarn/tarn.h>

#include "tests/kit/daemon_helper.h"

/* The daemon's server; 0: there is none now. */
pid_t server_of(const struct daemon *daemon);
/* Another than that one, within seconds; bails out if there is none. */
pid_t server_after(const struct daemon *daemon, pid_t dead);
/* Kills it, tells the keeper that this is no reason to give up, and waits for
 * the next one. */
pid_t server_kill(const struct daemon *daemon);

/* A call under which two servers die ends with -ECONNRESET, and says so. How
 * many may die under another is a matter of luck: then it is made again. Only
 * one that does the same if it is done twice. */
#define CALL_AGAIN(call)                                                       \
	({                                                                     \
		int _r = -ECONNRESET;                                          \
		for (int _i = 0; _i < 5 && _r == -ECONNRESET; _i++)            \
			_r = (call);                                           \
		_r;                                                            \
	})

/* A file of one U8 tensor "x", in the test's folder. Its path, static until
 * the next. */
const char *tensor_file(const char *name, uint32_t seed, uint64_t size);
/* Loads it and publishes NAME/x: as tarn_store_load. */
int tensor_load(tarn_store *store, const char *path, const char *name);
/* Are these the bytes of that file? */
bool tensor_is(const tarn_tensor *tensor, uint32_t seed, uint64_t size);
/* Looks it up by its whole name: 1 right, 0 not there, -1 wrong bytes. */
int tensor_check(
	tarn_store *store, const char *name, uint32_t seed, uint64_t size);

/* Waits until so many bytes of the pool are used: true if it came to that. */
bool used_becomes(tarn_store *store, uint64_t used);
