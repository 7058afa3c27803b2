/* SPDX-License-Identifier: MIT */
/* What has to be inflated, once for all processes of a user. */
#pragma once

#include "lib/file/file.h"
#include "lib/store/store.h"

/* How long a process waits for another that inflates, and longer by the file's
 * size; tests allow more. */
extern unsigned inflated_patience_ms;

/* For file_open_shared. */
struct file_sharing store_sharing(struct tarn_store *store);

/* The storage that a file was inflated into, where it is one of this store's; one
 * reference. 1: it is not, and has to be loaded. */
int store_inflated_storage(struct tarn_store *store, tarn_file *file,
	const struct tarn_load_options *options,
	struct tarn_load_info *ret_info, tarn_storage **ret);
