/* SPDX-License-Identifier: MIT */
/* The daemon, as the verbs meet it: perhaps it runs, perhaps it should. */
#pragma once

#include <stdbool.h>

#include <tarn/store.h>

#include "base/cleanup.h"

DEFINE_CLEANUP(tarn_store *, tarn_store_unref);
DEFINE_CLEANUP(tarn_tensor *, tarn_tensor_unref);
DEFINE_CLEANUP(tarn_file *, tarn_file_unref);
#define _cleanup_store_ _cleanup_(tarn_store_unrefp)
#define _cleanup_tensor_ _cleanup_(tarn_tensor_unrefp)
#define _cleanup_file_ _cleanup_(tarn_file_unrefp)

/* The pool that --pool named, in which the store is opened; or NULL. This
 * process opens one. */
extern const char *cli_pool;

/* Opens the store, starting a daemon if need be and allowed. 0, or -errno
 * after saying why. */
int cli_store_open(const char *socket, tarn_store **ret);

/* For who only asks what there is: starts none. Where none is running *ret is
 * NULL; but one that was asked for by its socket must be there. EXIT_DONE, or
 * EXIT_FAILED after saying why. */
int cli_store_find(const char *socket, tarn_store **ret);

/* The same, and one must be running. */
int cli_store_need(const char *socket, tarn_store **ret);

/* Is path something that can be read as a file? */
bool cli_is_file(const char *path);

/* Says what may have been meant by a name that nobody published. */
void cli_hint_name(tarn_store *store, const char *name);

/* Is a channel published as name? */
bool cli_is_channel(tarn_store *store, const char *name);

/* Says that name is a channel, and who shows those. Returns EXIT_FAILED. */
int cli_channel_failed(const char *name);
