/* SPDX-License-Identifier: MIT */
/*
 * Addresses: one string that names a tensor, published or in a file.
 *
 * Names come first, since looking one up costs nothing. Then each ':' from the
 * left may be the end of a file's path, and the first one where such a file
 * exists decides. So "a:b.npy:x" can name file "a" or "a:b.npy", but always the
 * same one as long as neither appears nor vanishes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/reserved.h"
#include "lib/store/inflated.h"
#include "lib/store/store.h"
#include "lib/tensor/tensor.h"

/* So many changes in a row are no accident; picked. */
#define CHANGED_TRIES 10

#define NAMES_SHOWN 5 /* a sentence should not list more */

/* "wte, wpe, h.0.attn, ... (148 in all)" */
static void list_tensors(const tarn_file *file, char *text, size_t size)
{
	size_t n = tarn_file_count(file), used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < MIN(n, NAMES_SHOWN) && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%.60s",
			i ? ", " : "", tarn_file_at(file, i)->name);
	if (n > NAMES_SHOWN && used < size)
		snprintf(text + used, size - used, ", ... (%zu in all)", n);
}

static int no_such_tensor(const tarn_file *file, const char *tensor)
{
	char names[512];

	if (tarn_file_count(file) == 0)
		return tarn_fail(
			ENOENT, "%.200s has no tensors", tarn_file_path(file));
	list_tensors(file, names, sizeof(names));
	return tarn_fail(ENOENT, "%.200s has no tensor '%.200s'; it has %s",
		tarn_file_path(file), tensor, names);
}

/* The storage of a shard's data range: the one that the cache knows, if it
 * still exists, otherwise by a load, which is cheap when the daemon has the
 * bytes. */
static int file_storage(tarn_store *store, tarn_file *file, uint32_t shard,
	const struct tarn_load_options *options, tarn_storage **ret)
{
	const struct shared_storage *shared;
	struct table_storage entry;
	uint64_t generation;
	uint32_t index;
	struct tarn_load_info info;
	bool fresh = options && options->fresh;
	int r;

	if (!fresh &&
		open_files_storage(
			&store->files, file, shard, &index, &generation) &&
		store_storage(store, index, generation, &entry, ret) >= 0)
		return 0;
	r = store_load_storage(
		store, tarn_file_shard(file, shard), options, &info, ret);
	if (r < 0)
		return r;
	shared = store_storage_of(*ret);
	if (shared && !info.not_kept)
		open_files_note(&store->files, file, shard, shared->index,
			shared->generation);
	return 0;
}

static int get_from_file(tarn_store *store, tarn_file *file, const char *tensor,
	const struct tarn_load_options *options, tarn_tensor **ret)
{
	_cleanup_storage_ tarn_storage *storage = NULL;
	const struct tarn_file_entry *t = tarn_file_find(file, tensor);
	struct tarn_layout layout;
	uint64_t offset, size;
	int r;

	if (!t)
		return no_such_tensor(file, tensor);
	r = tarn_file_entry_layout(t, &layout);
	if (r >= 0)
		r = file_storage(store, file, t->shard, options, &storage);
	if (r < 0)
		return r;
	tarn_file_data_range(tarn_file_shard(file, t->shard), &offset, &size);
	return tarn_tensor_new(storage, t->file_offset - offset, &layout, ret);
}

/* A storage that is known already is neither verified nor published again. */
static int check_options(
	const char *tensor, const struct tarn_load_options *options)
{
	if (options && (options->name || options->verify))
		return tarn_fail(EINVAL,
			"'%.200s': checksums and names are for "
			"tarn_store_load, which sees all of a file",
			tensor);
	return RESERVED_CHECK("tarn_load_options", options);
}

int tarn_store_get_from_file(tarn_store *store, tarn_file *file,
	const char *tensor, const struct tarn_load_options *options,
	tarn_tensor **ret)
{
	int r = check_options(tensor, options);

	return r < 0 ? r : get_from_file(store, file, tensor, options, ret);
}

/* A file that changes between its parsing and its load is parsed again. */
static int get_from_path(tarn_store *store, const char *path,
	const char *tensor, const struct tarn_load_options *options,
	tarn_tensor **ret)
{
	const struct file_sharing sharing = store_sharing(store);
	bool fresh = options && options->fresh;
	int r = -ESTALE;

	for (int i = 0; i < CHANGED_TRIES && r == -ESTALE; i++) {
		tarn_file *file;

		r = open_files_open(&store->files, path, tensor,
			fresh ? NULL : &sharing, &file);
		if (r < 0)
			break;
		r = get_from_file(store, file, tensor, options, ret);
		if (r == -ESTALE)
			open_files_forget(&store->files, file);
		tarn_file_unref(file);
	}
	return r;
}

/* The shortest path before a ':' that is a file. NULL: there is none. */
static char *find_file(const char *address, const char **ret_tensor)
{
	for (const char *colon = strchr(address, ':'); colon;
		colon = strchr(colon + 1, ':')) {
		char *path = strndup(address, (size_t)(colon - address));
		struct stat st;

		if (path && stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
			*ret_tensor = colon + 1;
			return path;
		}
		free(path);
	}
	return NULL;
}

static int no_such_address(tarn_store *store, const char *address)
{
	const struct file_sharing sharing = store_sharing(store);
	struct stat st;

	if (stat(address, &st) == 0 && S_ISREG(st.st_mode)) {
		tarn_file *file;
		char names[512];

		if (open_files_open(
			    &store->files, address, NULL, &sharing, &file) < 0)
			return tarn_fail_prefix(
				-ENOENT, "'%.200s' names no tensor: ", address);
		list_tensors(file, names, sizeof(names));
		tarn_file_unref(file);
		return tarn_fail(ENOENT,
			"'%.200s' is a file; say which tensor, FILE:TENSOR; it "
			"has %s",
			address, names);
	}
	return tarn_fail(ENOENT,
		strchr(address, ':')
			? "'%.200s': nothing is published under that name, and "
			  "there is no such file before a ':'"
			: "'%.200s': nothing is published under that name",
		address);
}

int tarn_store_get(tarn_store *store, const char *address,
	const struct tarn_load_options *options, tarn_tensor **ret)
{
	_cleanup_free_ char *path = NULL;
	const char *tensor;
	int r = check_options(address, options);

	if (r < 0)
		return r;
	r = -ENOENT;
	if (strlen(address) <= TARN_NAME_MAX && address[0])
		r = tarn_store_lookup(store, address, ret);
	if (r != -ENOENT)
		return r;
	path = find_file(address, &tensor);
	if (!path)
		return no_such_address(store, address);
	return get_from_path(store, path, tensor, options, ret);
}
