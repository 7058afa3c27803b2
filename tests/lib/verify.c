/* SPDX-License-Identifier: MIT */
/*
 * A file that was saved with checksums says whether its bytes are still the
 * same: whichever of them changes, that tensor is named, and no other.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tests/kit/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fd.h"
#include "lib/file/name_index.h"
#include "lib/save/checksums.h"
#include "tests/kit/tap.h"

enum { N = 6 };

static void save(struct tarn_save_item *items, const char *engine)
{
	struct tarn_save_options o = {.checksums = true, .engine = engine};

	if (tarn_save(in("v"), items, N, &o, NULL) < 0)
		bail("%s", tarn_error_message());
}

static tarn_file *opened(void)
{
	tarn_file *file = NULL;

	if (tarn_file_open(in("v"), &file) < 0)
		bail("%s", tarn_error_message());
	return file;
}

/* Turns a bit of the file. */
static void damage(uint64_t offset)
{
	_cleanup_fd_ int fd = open(in("v"), O_RDWR | O_CLOEXEC);
	char c;

	if (pread(fd, &c, 1, (off_t)offset) != 1)
		bail("pread: %m");
	c ^= 4;
	if (pwrite(fd, &c, 1, (off_t)offset) != 1)
		bail("pwrite: %m");
}

struct seen {
	char names[256];
	int good, bad, without;
	uint64_t done, total;
};

static int note(void *arg, const struct tarn_file_entry *t, int result)
{
	struct seen *s = arg;

	s->good += result == 0;
	s->without += result == -ENODATA;
	if (result == -EBADMSG && ++s->bad)
		snprintf(s->names + strlen(s->names), 16, "%s ", t->name);
	return 0;
}

static int progress(void *arg, uint64_t done, uint64_t total)
{
	struct seen *s = arg;

	s->done = done;
	s->total = total;
	return 0;
}

static int verify(const char *engine, struct seen *s)
{
	tarn_file *file = opened();
	struct tarn_verify_options o = {.tensor = note,
		.progress = progress,
		.arg = s,
		.engine = engine};
	struct tarn_verify_info info = {0};
	int r;

	*s = (struct seen) {0};
	r = tarn_file_verify(file, &o, &info);
	is_int(s->good, (int64_t)info.good, "good tensors are counted");
	is_int(s->bad, (int64_t)info.bad, "bad tensors are counted");
	is_int(s->without, (int64_t)info.unchecked,
		"tensors without a checksum are counted");
	tarn_file_unref(file);
	return r;
}

static void test_damage(struct tarn_save_item *items, const char *engine)
{
	struct seen s;
	tarn_file *file;
	size_t n;

	save(items, engine);
	is_int(0, verify(engine, &s), "%s: an undamaged file is verified",
		engine);
	is_int(N, s.good, "all tensors of an undamaged file are good");
	ok(s.total > 0 && s.done <= s.total,
		"the progress of a verification stays within its total");
	file = opened();
	n = tarn_file_count(file);
	for (size_t i = 0; i < n; i++) {
		const struct tarn_file_entry *t = tarn_file_at(file, i);
		char wanted[64];

		if (!t->nbytes)
			continue;
		snprintf(wanted, sizeof(wanted), "%s ", t->name);
		damage(t->file_offset + (i & 1 ? t->nbytes - 1 : 0));
		is_int(-EBADMSG, verify(engine, &s),
			"%s: a file with damage in '%s' is refused", engine,
			t->name);
		is_str(wanted, s.names,
			"the damaged tensor is named, and no other");
		has_str("is damaged", tarn_error_message(),
			"the error says that a tensor is damaged");
		has_str(t->name, tarn_error_message(),
			"the error names the damaged tensor");
		is_int(N - 1, s.good,
			"the undamaged tensors are counted as good");
		damage(t->file_offset + (i & 1 ? t->nbytes - 1 : 0));
	}
	is_int(0, verify(engine, &s), "%s: a repaired file is verified",
		engine);
	tarn_file_unref(file);
	clear_folder();
}

static void test_without(struct tarn_save_item *items)
{
	struct tarn_save_pair pair = {.key = "k", .value = "v"};
	struct tarn_save_options o = {.pairs = &pair, .n_pairs = 1};
	struct seen s;

	if (tarn_save(in("v"), items, N, &o, NULL) < 0)
		bail("%s", tarn_error_message());
	is_int(0, verify(NULL, &s), "a file without checksums is verified");
	is_int(N, s.without,
		"a file without checksums has none for any tensor");
	clear_folder();
}

/* Those of somebody else: too short, no digits, for nobody. */
static void test_foreign(void)
{
	static const char head[] =
		"{\"__metadata__\":{\"xxh3:a\":\"12\",\"xxh3:c\":"
		"\"2D06800538D394"
		"C2\",\"xxh3:gone\":\"x\",\"xxh3:b\":\"zzzzzzzzzzzzzzzz\"},"
		"\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
		"\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"
		"\"c\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]}"
		"}";
	_cleanup_fd_ int fd = open(in("v"), O_CREAT | O_WRONLY, 0600);
	uint64_t size = sizeof(head) - 1, sum;
	tarn_file *file;
	struct seen s;

	if (fd_write_all(fd, &size, 8) < 0 ||
		fd_write_all(fd, head, size) < 0 ||
		fd_write_all(fd, "ab", 2) < 0)
		bail("write: %m");
	file = opened();
	is_int(-EBADMSG, tarn_file_checksum(file, "a", &sum),
		"a checksum of two digits is refused");
	is_int(-EBADMSG, tarn_file_checksum(file, "b", &sum),
		"a checksum without digits is refused");
	is_int(0, tarn_file_checksum(file, "c", &sum),
		"a checksum in capital letters is read");
	is_int(-ENOENT, tarn_file_checksum(file, "d", &sum),
		"a tensor without checksum has none");
	tarn_file_unref(file);
	is_int(-EBADMSG, verify(NULL, &s),
		"a malformed checksum counts as a bad one");
	is_str("a b ", s.names, "both damaged tensors are named");
	is_int(1, s.good, "a tensor without bytes is verified");
	has_str("which is not 16 hexadecimal digits", tarn_error_message(),
		"the error says what the tensor's bytes should have been");
	clear_folder();
}

/* A file of so many tensors of one byte each, with a checksum for each. */
static tarn_file *many(int n)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	_cleanup_fd_ int fd = open(in("v"), O_CREAT | O_WRONLY, 0600);
	uint64_t head;

	fputs("{\"__metadata__\":{\"format\":\"pt\"", f);
	for (int i = 0; i < n; i++)
		fprintf(f, ",\"xxh3:layer.%d.weight\":\"%016x\"", i, i);
	fputs("}", f);
	for (int i = 0; i < n; i++)
		fprintf(f,
			",\"layer.%d.weight\":{\"dtype\":\"U8\",\"shape\":"
			"[1],\"data_offsets\":[%d,%d]}",
			i, i, i + 1);
	fputs("}", f);
	fclose(f);
	head = size;
	if (fd_write_all(fd, &head, 8) < 0 ||
		fd_write_all(fd, text, size) < 0 ||
		ftruncate(fd, (off_t)(8 + size + (size_t)n)) < 0)
		bail("write: %m");
	free(text);
	return opened();
}

/* Names of its index that were compared with one that is looked up. */
static unsigned n_compared;

int64_t __real_name_index_next(const struct name_index *index, const char *name,
	size_t size, struct name_state *state);
int64_t __wrap_name_index_next(const struct name_index *index, const char *name,
	size_t size, struct name_state *state);
int64_t __wrap_name_index_next(const struct name_index *index, const char *name,
	size_t size, struct name_state *state)
{
	n_compared++;
	return __real_name_index_next(index, name, size, state);
}

#define MANY 16000

/* A look-up that walked all pairs took a minute for a hundred thousand. Each one
 * asks the index, here for the tensor and for its checksum; to make the index
 * takes one more for each. */
static void test_many(void)
{
	tarn_file *file = many(MANY);
	int wrong = 0;

	for (size_t i = 0; i < tarn_file_count(file); i++) {
		const struct tarn_file_entry *t = tarn_file_at(file, i);
		uint64_t sum = 0;

		wrong += tarn_file_checksum(file, t->name, &sum) < 0 ||
			 sum != t->file_offset -
					 tarn_file_at(file, 0)->file_offset;
	}
	is_int(0, wrong, "each of many tensors has its checksum");
	ok(n_compared >= MANY && n_compared <= 8 * MANY,
		"%d checksums are found with %u looks into the index", MANY,
		n_compared);
	tarn_file_unref(file);
	clear_folder();
}

/* Two shards, one of them damaged. */
static void test_shards(struct tarn_save_item *items)
{
	static const char index[] = "{\"weight_map\":{\"large\":\"one\","
				    "\"bytes\":\"two\"}}";
	struct tarn_save_options o = {.checksums = true};
	_cleanup_fd_ int fd = open(in("v"), O_CREAT | O_WRONLY, 0600);
	_cleanup_fd_ int two = -1;
	tarn_file *file;
	struct seen s;
	uint64_t sum = 0;

	if (fd_write_all(fd, index, strlen(index)) < 0 ||
		tarn_save(in("one"), &items[0], 1, &o, NULL) < 0 ||
		tarn_save(in("two"), &items[3], 1, &o, NULL) < 0)
		bail("%s", tarn_error_message());
	is_int(0, verify(NULL, &s), "the shards of an index are verified: %s",
		tarn_error_message());
	is_int(2, s.good, "the tensors of both shards are good");
	file = opened();
	is_int(0, tarn_file_checksum(file, "bytes", &sum),
		"the checksum of a shard's tensor is found");
	is_int(-ENOENT, tarn_file_checksum(file, "none", &sum),
		"a file without checksums has none for a tensor");
	two = open(in("two"), O_WRONLY | O_CLOEXEC);
	if (pwrite(two, "x", 1, 5000) != 1)
		bail("pwrite: %m");
	is_int(-EBADMSG, verify(NULL, &s), "a damaged shard is refused");
	has_str("/two: tensor 'bytes' is damaged", tarn_error_message(),
		"the error contains the expected words");
	ok(s.total > 0 && s.done <= s.total, "the progress covers all shards");
	tarn_file_unref(file);
	clear_folder();
}

static int stop(void *arg, const struct tarn_file_entry *t, int result)
{
	return 7;
}

static int cancel(void *arg, uint64_t done, uint64_t total)
{
	return 1;
}

static void test_stop(struct tarn_save_item *items)
{
	struct tarn_verify_options o = {.tensor = stop};
	tarn_file *file;

	save(items, NULL);
	file = opened();
	is_int(7, tarn_file_verify(file, &o, NULL),
		"the callback for each tensor may stop a verification");
	o = (struct tarn_verify_options) {.progress = cancel};
	is_int(-ECANCELED, tarn_file_verify(file, &o, NULL),
		"a progress callback may cancel a verification");
	o = (struct tarn_verify_options) {0};
	if (truncate(in("v"), 100000) < 0)
		bail("truncate: %m");
	is_int(-ENODATA, tarn_file_verify(file, &o, NULL),
		"a file that is cut short is refused");
	has_str("/v: copy: ", tarn_error_message(),
		"the error contains '/v: copy:'");
	has_str("v ends at byte ", tarn_error_message(),
		"the error says where the damaged tensor ends");
	tarn_file_unref(file);
	clear_folder();
}

static int plain_update(void *state, const void *bytes, size_t size)
{
	return (int)XXH3_64bits_update(state, bytes, size);
}

/* The code for this CPU and that for any: one sum, however it is cut. */
static void test_kernels(void)
{
	static unsigned char bytes[100000];
	struct checksum_range one = {.nbytes = sizeof(bytes)}, two = one;
	struct checksums sums;
	checksum_update *update;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(i * i >> 3);
	if (checksums_begin(&sums, &one, 1) < 0)
		bail("%s", tarn_error_message());
	for (uint64_t at = 0, n = 1; at < sizeof(bytes); at += n, n += 37) {
		n = MIN(n, sizeof(bytes) - at);
		checksums_feed(&sums, at, bytes + at, n);
	}
	update = sums.update;
	checksums_end(&sums);
	is_hex(XXH3_64bits(bytes, sizeof(bytes)), one.value,
		"a checksum in pieces is that of the whole");
	if (checksums_begin(&sums, &two, 1) < 0)
		bail("%s", tarn_error_message());
	sums.update = update == checksum_update_avx2() ? plain_update : update;
	checksums_feed(&sums, 0, bytes, sizeof(bytes));
	checksums_end(&sums);
	is_hex(one.value, two.value,
		"both implementations of the checksum agree");
}

static bool works(const char *name)
{
	struct tarn_stream_options o = {.engine = name};
	tarn_stream *stream = NULL;
	int r = tarn_stream_new(&o, &stream);

	tarn_stream_free(stream);
	return r >= 0;
}

int main(void)
{
	struct tarn_save_item items[N] = {
		item_of("large", MADE(TARN_F32, 1, 3000, 1001)),
		item_of("small", MADE(TARN_F32, 2, 5)),
		item_of("empty", MADE(TARN_U8, 3, 0)),
		item_of("bytes", MADE(TARN_U8, 4, 4194303)),
		item_of("turned",
			viewed(MADE(TARN_U16, 5, 700, 801), ".transpose(0,1)")),
		item_of("zero", MADE(TARN_I64, 6, 4, 0)),
	};

	test_damage(items, "threads");
	if (works("io_uring"))
		test_damage(items, "io_uring");
	else
		skip(42, "no io_uring here: %s", tarn_error_message());
	test_without(items);
	test_foreign();
	test_many();
	test_shards(items);
	test_stop(items);
	test_kernels();
	drop(items, N);
	return done(122);
}
