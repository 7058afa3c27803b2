// SPDX-License-Identifier: MIT
/*
 * Sharded checkpoints: an index opens as one file with all tensors of all its
 * shards, each read where it is; and every way in which index and shards can
 * contradict each other, reach out of their folder, or be too many for the
 * process, is one sentence with the names in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/kit/file_bytes.h"
#include "tests/kit/limit.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define U8(name, from, to, n)                                                  \
	"\"" name "\":{\"dtype\":\"U8\",\"shape\":[" n "],"                    \
	"\"data_offsets\":[" from "," to "]}"

#define INDEX "model.safetensors.index.json"

static char folder[4000];

static const char *path_of(const char *name)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void put(const char *name, const void *bytes, size_t size)
{
	FILE *f = fopen(path_of(name), "w");

	if (!f || (size && fwrite(bytes, size, 1, f) != 1) || fclose(f) != 0)
		bail("%s: %m", name);
}

static void put_shard(const char *name, const char *header, size_t data)
{
	size_t size;
	char *bytes = bytes_safetensors(header, data, &size);

	put(name, bytes, size);
	free(bytes);
}

static int open_index(const char *text, tarn_file **ret)
{
	put(INDEX, text, strlen(text));
	return tarn_file_open(path_of(INDEX), ret);
}

static void refuse(int error, const char *text, const char *sentence)
{
	tarn_file *file = NULL;

	is_int(-error, open_index(text, &file), "an index is refused: %.60s",
		text);
	has_str(sentence, tarn_error_message(),
		"the index is refused because: %s", sentence);
	has_str(INDEX ": ", tarn_error_message(),
		"the error begins with the index's name");
	tarn_file_unref(file);
}

/* ---- what works ------------------------------------------------------ */

static const char index_text[] =
	"\n{\"metadata\": {\"total_size\": 7, \"by\": \"h\\u00e4nd\", "
	"\"large\": 18446744073709551616, \"real\": 1.50, \"ok\": true, "
	"\"no\": null, \"more\": {\"x\": 1}, \"list\": [1]},\n"
	"\"weight_map\": {\"z\": \"a.st\", \"m\": \"sub/..b.st\", "
	"\"a\": \"a.st\"}}\n";

static void check_metadata(const tarn_file *file)
{
	static const char *const pairs[][2] = {{"total_size", "7"},
		{"by", "h\xc3\xa4nd"}, {"large", "18446744073709551616"},
		{"real", "1.50"}, {"ok", "true"}};

	is_int(5, (int64_t)tarn_file_metadata_count(file),
		"the metadata's scalars are pairs of strings");
	for (size_t i = 0; i < 5; i++) {
		const char *key = "", *value = "";

		must(tarn_file_metadata_at(file, i, &key, &value));
		is_str(pairs[i][0], key, "a pair of the metadata has its key");
		is_str(pairs[i][1], value,
			"a pair of the metadata has its value as it is "
			"written");
	}
}

static void check_tensor(
	tarn_file *file, const char *name, uint32_t shard, int64_t value)
{
	const struct tarn_file_entry *t = tarn_file_find(file, name);
	tarn_tensor *read = NULL, *mapped = NULL;
	int64_t n = -1;

	is_int(shard, t ? t->shard : UINT32_MAX, "%s is found in its shard",
		name);
	is_int(0, tarn_file_tensor(file, name, &read),
		"a tensor of a shard is opened");
	is_int(0, tarn_file_map(file, name, 0, &mapped),
		"a tensor of a shard is mapped");
	must(tarn_tensor_get_i64(read, (int64_t[]) {0}, &n));
	is_int(value, n, "a tensor of a shard has its first element");
	is_int(value, *(const unsigned char *)tarn_tensor_data(mapped),
		"a mapped tensor of a shard has its first element");
	tarn_tensor_unref(read);
	tarn_tensor_unref(mapped);
}

static void check_contents(tarn_file *file)
{
	uint64_t offset = 1, size = 0;

	is_str("safetensors index", tarn_file_format(file),
		"the format of an index is its own");
	is_int(2, (int64_t)tarn_file_shard_count(file),
		"the index has two shards");
	is_int(3, (int64_t)tarn_file_count(file),
		"the index has the tensors that the map names and no other");
	is_str("a", tarn_file_at(file, 0)->name,
		"the tensors are in the order of the shards");
	is_str("z", tarn_file_at(file, 1)->name,
		"the tensors of a shard are in the order of their bytes");
	is_str("m", tarn_file_at(file, 2)->name,
		"the next shard's tensors follow");
	tarn_file_data_range(file, &offset, &size);
	is_int(0, (int64_t)offset, "the data of an index has no one offset");
	is_int(8, (int64_t)size,
		"the data of an index is as large as that of its shards");
}

static void check_shards(tarn_file *file)
{
	tarn_file *shard;

	ok(!tarn_file_find(file, "extra"),
		"a tensor that the map does not name is not found");
	ok(!tarn_file_shard(file, 2), "a third shard of two is not found");
	shard = tarn_file_shard(file, 0);
	ok(tarn_file_find(shard, "extra"),
		"a shard has a tensor that the map does not name");
	is_int(1, (int64_t)tarn_file_shard_count(shard),
		"a file without an index has one shard");
	ok(tarn_file_shard(shard, 0) == shard,
		"the only shard of a file is the file itself");
}

static void check_bytes(tarn_file *file)
{
	tarn_tensor *bytes = NULL, *z = NULL;
	int64_t want = -1, seen = -2;

	is_int(-ENOTSUP, tarn_file_bytes(file, &bytes),
		"an index has no bytes of its own");
	has_str(INDEX ": it is an index", tarn_error_message(),
		"the error says that it is an index");
	is_int(0, tarn_file_bytes(tarn_file_shard(file, 0), &bytes),
		"a shard has bytes");
	is_int(5, tarn_tensor_layout(bytes)->shape[0],
		"they are those of all its tensors");
	is_int(TARN_U8, tarn_tensor_layout(bytes)->dtype, "they are of U8");
	must(tarn_file_tensor(file, "z", &z));
	must(tarn_tensor_get_i64(z, (int64_t[]) {1}, &want));
	must(tarn_tensor_get_i64(bytes, (int64_t[]) {4}, &seen));
	is_int(want, seen, "the last byte is that of the last tensor");
	tarn_tensor_unref(bytes);
	tarn_tensor_unref(z);
}

/* Drops the index, which a tensor of it outlives. */
static void check_lifetime(tarn_file *file)
{
	tarn_tensor *t = NULL;

	is_int(-ENOTSUP, tarn_file_map(file, NULL, 0, &t),
		"the data of an index is not one range to be mapped");
	is_int(0, tarn_file_tensor(file, "m", &t),
		"a tensor of an index is opened");
	tarn_file_unref(file);
	is_int(0, tarn_tensor_get_i64(t, (int64_t[]) {2}, (int64_t[]) {0}),
		"a tensor outlives the index");
	tarn_tensor_unref(t);
}

static void works(void)
{
	tarn_file *file = NULL;
	int fds = count_fds(getpid());

	put_shard("a.st",
		"{" U8("a", "0", "2", "2") "," U8(
			"extra", "2", "3", "1") "," U8("z", "3", "5", "2") "}",
		5);
	mkdir(path_of("sub"), 0777);
	put_shard("sub/..b.st", "{" U8("m", "0", "3", "3") "}", 3);
	is_int(0, open_index(index_text, &file),
		"an index of two shards opens");
	if (!file)
		bail("%s", tarn_error_message());
	is_int(fds + 3, count_fds(getpid()),
		"the index has one open descriptor for each of its files");
	check_contents(file);
	check_metadata(file);
	check_tensor(file, "z", 0, 3);
	check_tensor(file, "m", 1, 0);
	check_shards(file);
	check_bytes(file);
	check_lifetime(file);
	is_int(fds, count_fds(getpid()),
		"no descriptor is left after the index is closed");
	is_int(0, open_index("{\"weight_map\":{}}", &file),
		"an index of an empty map opens");
	is_int(0,
		(int64_t)(tarn_file_shard_count(file) + tarn_file_count(file)),
		"an index of an empty map has no shards and no tensors");
	tarn_file_unref(file);
}

/* ---- what does not --------------------------------------------------- */

static void texts(void)
{
	refuse(EBADMSG, "{", "at byte ");
	refuse(EBADMSG, "{\"weight_map\":{}} x", "at byte ");
	refuse(EBADMSG, "{\"model_type\":\"llama\"}", "no weight_map");
	refuse(EBADMSG, "{\"weight_map\":[]}", "no weight_map");
	refuse(EBADMSG, "{\"weight_map\":{\"a\":7}}",
		"gives tensor 'a' no name of a file");
	refuse(EBADMSG, "{\"weight_map\":{\"a\":\"\"}}",
		"gives tensor 'a' no name of a file");
	refuse(EBADMSG, "{\"weight_map\":{\"a\":\"a.st\",\"a\":\"a.st\"}}",
		"duplicate");
	refuse(EBADMSG, "{\"metadata\":[1],\"weight_map\":{\"a\":\"a.st\"}}",
		"metadata is [1], it must be an object");
}

static void folders(void)
{
	static const char *const names[] = {
		"/etc/passwd", "../a.st", "..", "sub/../../a.st", "sub/.."};
	char text[200];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(text, sizeof(text), "{\"weight_map\":{\"a\":\"%s\"}}",
			names[i]);
		refuse(EBADMSG, text, "in the folder of the index");
		has_str(names[i], tarn_error_message(),
			"the error has the name that is no shard's");
	}
}

static void missing(void)
{
	refuse(ENOENT, "{\"weight_map\":{\"a\":\"a.st\",\"b\":\"gone.st\"}}",
		"1 of its 2 shards is missing: gone.st");
	refuse(ENOENT,
		"{\"weight_map\":{\"a\":\"a.st\",\"5\":\"5.st\",\"4\":\"4.st\","
		"\"3\":\"3.st\",\"2\":\"a.st/2.st\"}}",
		"4 of its 5 shards are missing: 3.st, 4.st, 5.st, ...");
}

static void contradictions(void)
{
	refuse(EBADMSG, "{\"weight_map\":{\"q\":\"a.st\"}}",
		"has tensor 'q' in 'a.st', which has no such tensor");
	refuse(EBADMSG,
		"{\"weight_map\":{\"m\":\"a.st\",\"a\":\"sub/..b.st\"}}",
		"has tensor 'm' in 'a.st', but it is in 'sub/..b.st'");
	refuse(EBADMSG, "{\"weight_map\":{\"a\":\"" INDEX "\"}}",
		"shards of an index must be tensor files");
	refuse(EISDIR, "{\"weight_map\":{\"a\":\"sub\"}}", "a directory");
	put("bad.st", "\1\0\0\0\0\0\0\0[", 9);
	refuse(EBADMSG, "{\"weight_map\":{\"a\":\"a.st\",\"b\":\"bad.st\"}}",
		"shard 2 of 2: ");
	has_str("bad.st: ", tarn_error_message(),
		"the error names the shard that is damaged");
}

static void by_descriptor(void)
{
	tarn_file *file = NULL;
	int fd;

	put(INDEX, index_text, strlen(index_text));
	fd = open(path_of(INDEX), O_RDONLY | O_CLOEXEC);
	is_int(-ENOTSUP, tarn_file_open_fd(fd, INDEX, &file),
		"an index is refused by a descriptor, which has no folder");
	has_str("open it by that", tarn_error_message(),
		"the error suggests to open the index by its path");
	close(fd);
}

static void too_many(void)
{
	struct rlimit all;
	tarn_file *file = NULL;
	int fds = count_fds(getpid()), r;

	put(INDEX, index_text, strlen(index_text));
	/* Room for the index and one shard. */
	all = limit_to(RLIMIT_NOFILE, limit_next_fd() + 3);
	r = tarn_file_open(path_of(INDEX), &file);
	setrlimit(RLIMIT_NOFILE, &all);
	is_int(-EMFILE, r,
		"an index of more shards than descriptors is refused");
	has_str("RLIMIT_NOFILE is", tarn_error_message(),
		"the error names the limit of descriptors");
	has_str("of 2: too many open files", tarn_error_message(),
		"the error names the shard that could not be opened");
	is_int(fds, count_fds(getpid()),
		"the shards that were opened are closed again");
}

int main(void)
{
	snprintf(folder, sizeof(folder), "%s/shards", test_tmpdir());
	if (mkdir(folder, 0777) < 0)
		bail("%s: %m", folder);
	works();
	texts();
	folders();
	missing();
	contradictions();
	by_descriptor();
	too_many();
	unlink(path_of("a.st"));
	unlink(path_of("bad.st"));
	unlink(path_of("sub/..b.st"));
	unlink(path_of(INDEX));
	rmdir(path_of("sub"));
	rmdir(folder);
	return done(120);
}
