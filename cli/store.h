/* SPDX-License-Identifier: MIT */
/* The daemon's store, for the verbs: opening it, and starting a daemon if
 * allowed. */
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

/* For verbs that only look: starts none. If none is running *ret is NULL; but
 * one that was named by its socket must be there. EXIT_DONE, or EXIT_FAILED
 * after an error message. */
int cli_store_find(const char *socket, tarn_store **ret);

/* The same, and one must be running. */
int cli_store_need(const char *socket, tarn_store **ret);

/* Is path something that can be read as a file? */
bool cli_is_file(const char *path);

/* Suggests a name in place of one that is not published. */
void cli_hint_name(tarn_store *store, const char *name);

/* If name, which is not published itself, is a folder of others, says that
 * "tarn COMMAND NAME/" does something with them; command NULL: that "NAME/"
 * stands for them. */
bool cli_hint_folder(tarn_store *store, const char *name, const char *command,
	const char *does);

/* Is a channel published as name? */
bool cli_is_channel(tarn_store *store, const char *name);

/* Reports that name is a channel, and the verbs for those: EXIT_FAILED. */
int cli_channel_failed(const char *name);
