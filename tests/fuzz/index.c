/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as the index of a sharded checkpoint, in a folder with a few
 * shards. What is accepted is JSON, has the tensors of its weight_map and no
 * others, each in the shard that it names, with the bytes that lie there; and
 * no shard is outside of the folder.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/error.h>
#include <tarn/file.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "tests/kit/file_bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/kit/tap.h"

const char fuzz_name[] = "index";

#define INDEX "model.safetensors.index.json"
#define U8(name, from, to)                                                     \
	"\"" name "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":["      \
	"" from "," to "]}"

static const struct {
	const char *name, *header;
	size_t data;
} shards[] = {
	{"1.st", "{" U8("a", "0", "4") "," U8("b", "4", "8") "}", 8},
	{"2.st", "{" U8("c", "0", "4") "," U8("a", "4", "8") "}", 8},
	{"d/3.st", "{" U8("d/e", "0", "4") "}", 4},
	{"broken", "{" U8("f", "0", "4"), 4},
	{"index.json", "{\"weight_map\":{}}", 0},
};

/* ---- the folder ---------------------------------------------------------- */

static const char *folder;
static char index_path[4096];
static int index_fd; /* that the path leads to: no disk is written to */

static const char *path_of(const char *name)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void put(const char *path, const void *bytes, size_t size)
{
	FILE *f = fopen(path, "we");

	if (!f || (size && fwrite(bytes, size, 1, f) != 1) || fclose(f) != 0)
		bail("%s: %s", path, strerror(errno));
}

static void put_index(const void *bytes, size_t size)
{
	if (ftruncate(index_fd, 0) < 0 || lseek(index_fd, 0, SEEK_SET) < 0 ||
		fd_write_all(index_fd, bytes, size) < 0)
		bail("the index: %s", strerror(errno));
}

static void remove_folder(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(shards); i++)
		unlink(path_of(shards[i].name));
	unlink(index_path);
	rmdir(path_of("d"));
	rmdir(folder);
}

static void make_folder(void)
{
	char memory[64];

	folder = test_tmpdir();
	snprintf(index_path, sizeof(index_path), "%s/%s", folder, INDEX);
	atexit(remove_folder);
	index_fd = bytes_fd("", 0);
	snprintf(memory, sizeof(memory), "/proc/self/fd/%d", index_fd);
	if (symlink(memory, index_path) < 0)
		bail("%s: %s", index_path, strerror(errno));
	if (mkdir(path_of("d"), 0700) < 0)
		bail("%s: %s", path_of("d"), strerror(errno));
	for (size_t i = 0; i < ARRAY_SIZE(shards); i++) {
		_cleanup_free_ char *bytes = NULL;
		size_t size;

		bytes = bytes_safetensors(
			shards[i].header, shards[i].data, &size);
		if (!shards[i].data) /* an index among shards */
			put(path_of(shards[i].name), bytes + 8, size - 8);
		else
			put(path_of(shards[i].name), bytes, size);
	}
}

/* ---- what is accepted ---------------------------------------------------- */

/* Data count up from 0 in each shard: see bytes_safetensors. */
static void judge_bytes(
	tarn_file *file, tarn_file *shard, const struct tarn_file_entry *t)
{
	uint8_t read[4], from;
	uint64_t offset, size;
	tarn_tensor *tensor;

	tarn_file_data_range(shard, &offset, &size);
	if (t->file_offset < offset || t->nbytes != sizeof(read) ||
		t->file_offset + t->nbytes > offset + size)
		bail("'%s' is not in its shard", t->name);
	if (tarn_file_tensor(file, t->name, &tensor) < 0 ||
		tarn_tensor_ravel(tensor, TARN_ORDER_C, read, sizeof(read)) < 0)
		bail("'%s' cannot be read: %s", t->name, tarn_error_message());
	from = (uint8_t)(t->file_offset - offset);
	for (uint8_t i = 0; i < sizeof(read); i++)
		if (read[i] != from + i)
			bail("'%s' has other bytes", t->name);
	tarn_tensor_unref(tensor);
}

/* In the shard that the map says. */
static void judge_tensor(tarn_file *file, const char *name, const char *shard)
{
	const struct tarn_file_entry *t = tarn_file_find(file, name), *there;
	tarn_file *in = t ? tarn_file_shard(file, t->shard) : NULL;

	if (!in)
		bail("'%s' is not found by its name", name);
	if (strcmp(tarn_file_path(in), path_of(shard)) != 0)
		bail("'%s' is taken from %s, not %s", name, tarn_file_path(in),
			shard);
	there = tarn_file_find(in, name);
	if (!there || there->file_offset != t->file_offset ||
		there->nbytes != t->nbytes || there->dtype != t->dtype)
		bail("'%s' is another one in its shard", name);
	judge_bytes(file, in, t);
}

/* Resolved, so that no name leads elsewhere. */
static void judge_place(tarn_file *shard)
{
	_cleanup_free_ char *real = realpath(tarn_file_path(shard), NULL);
	_cleanup_free_ char *user = realpath(folder, NULL);

	if (!real || !user || strncmp(real, user, strlen(user)) != 0 ||
		real[strlen(user)] != '/')
		bail("a shard is outside of the folder: %s",
			tarn_file_path(shard));
}

static void judge_metadata(tarn_file *file, json_t *metadata)
{
	for (size_t i = 0; i < tarn_file_metadata_count(file); i++) {
		const char *key, *value;
		json_t *item;

		if (tarn_file_metadata_at(file, i, &key, &value) < 0)
			bail("metadata %zu: %s", i, tarn_error_message());
		item = json_object_get(metadata, key);
		if (!item || json_is_object(item) || json_is_array(item) ||
			(json_is_string(item) &&
				strcmp(json_string_value(item), value) != 0))
			bail("metadata '%s' is '%s'", key, value);
	}
}

static void judge(tarn_file *file, const uint8_t *bytes, size_t size)
{
	const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL;
	json_t *root, *map, *value;
	json_error_t error;
	const char *name;

	if (memchr(bytes, 0, size))
		bail("accepted with a NUL");
	root = json_loadb((const char *)bytes, size, flags, &error);
	map = json_object_get(root, "weight_map");
	if (!json_is_object(map))
		bail("accepted, and is no index: %s", error.text);
	if (json_object_size(map) != tarn_file_count(file))
		bail("%zu tensors of %zu", tarn_file_count(file),
			json_object_size(map));
	json_object_foreach(map, name, value)
		judge_tensor(file, name, json_string_value(value));
	if (json_object_size(map))
		for (size_t i = 0; i < tarn_file_shard_count(file); i++)
			judge_place(tarn_file_shard(file, i));
	judge_metadata(file, json_object_get(root, "metadata"));
	json_decref(root);
}

static void judge_refusal(int r)
{
	static const int errors[] = {EBADMSG, ENOTSUP, ENOENT, EISDIR, ENOTDIR,
		ENAMETOOLONG, EACCES};
	bool known = false;

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		known |= r == -errors[i];
	if (!known)
		bail("refused with %d: %s", r, tarn_error_message());
	if (!strstr(tarn_error_message(), INDEX))
		bail("refused without its name: %s", tarn_error_message());
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	tarn_file *file = NULL;
	int r;

	if (!folder)
		make_folder();
	put_index(bytes, size);
	r = tarn_file_open(index_path, &file);
	if (r < 0) {
		judge_refusal(r);
		return 0;
	}
	if (!strcmp(tarn_file_format(file), "safetensors index"))
		judge(file, bytes, size);
	tarn_file_unref(file);
	return 0;
}
