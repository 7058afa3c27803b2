/* SPDX-License-Identifier: MIT */
/*
 * A saved file has the elements of its tensors: any view from any source,
 * whatever the pieces that the save cuts the file into.
 */
#include "tests/kit/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/checked.h"
#include "base/fd.h"
#include "tests/kit/tap.h"

static const char *engine;

static int save(const char *name, const struct tarn_save_item *items, size_t n)
{
	struct tarn_save_options o = {.engine = engine};

	return tarn_save(in(name), items, n, &o, NULL);
}

/* Views, odd sizes, all kinds of dtypes, with and without large ones. */
static void test_views(void)
{
	struct tarn_save_item items[] = {
		item_of("plain", MADE(TARN_F32, 1, 7, 5)),
		item_of("transposed",
			viewed(MADE(TARN_F32, 2, 33, 65), ".transpose(0,1)")),
		item_of("strided",
			viewed(MADE(TARN_I16, 3, 100, 40), "[5:90:3, ::-2]")),
		item_of("repeated",
			viewed(MADE(TARN_F64, 4, 1, 9), ".expand(50,9)")),
		item_of("scalar", MADE(TARN_F64, 5)),
		item_of("empty", MADE(TARN_I64, 6, 0, 3)),
		item_of("bool", MADE(TARN_BOOL, 7, 3)),
		item_of("half", MADE(TARN_BF16, 8, 31)),
		item_of("four bits", MADE(TARN_F4, 9, 3, 6)),
		item_of("six bits", MADE(TARN_F6_E3M2, 10, 5, 4)),
		item_of("complex",
			viewed(MADE(TARN_C64, 11, 4, 6), ".flip(1)")),
		item_of("\xc3\xa4 \"quoted\"\n", MADE(TARN_U8, 12, 1)),
	};
	size_t n = ARRAY_SIZE(items);

	is_int(0, save("v.safetensors", items, n), "%s: views are saved: %s",
		engine, tarn_error_message());
	holds(in("v.safetensors"), items, n,
		"the saved views have their elements");
	is_int(0, save("v.safetensors", items, 0),
		"a file without tensors is saved");
	holds(in("v.safetensors"), items, 0, "a file without tensors is read");
	drop(items, n);
	clear_folder();
}

/* Around the borders at which files are cut: pages, pieces, the smallest that
 * is written from where it is; with heads of many lengths, and six bits, whose
 * smallest unit divides none of those. */
static void test_large(uint32_t align, bool checksums, bool contiguous)
{
	static const int64_t sizes[] = {
		262143, 262144, 266240, 2097152, 2093056, 4194305, 100};
	struct tarn_save_item items[ARRAY_SIZE(sizes) + 2];
	struct tarn_save_options o = {
		.align = align, .checksums = checksums, .engine = engine};
	struct tarn_copy_info info = {0};
	char names[ARRAY_SIZE(sizes)][8];
	size_t n = ARRAY_SIZE(sizes);
	tarn_file *file = NULL;

	for (size_t i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "t%zu", i);
		items[i] = item_of(names[i],
			contiguous ? MADE(TARN_U8, 3 + (unsigned)i, sizes[i])
				   : viewed(MADE(TARN_U8, 3 + (unsigned)i,
						    sizes[i]),
					     "[::-1]"));
	}
	items[n] = item_of("six",
		viewed(MADE(TARN_F6_E2M3, 8, 1100, 4, 700), ".transpose(0,1)"));
	items[n + 1] = item_of("wide", MADE(TARN_F32, 9, 3, 100001));
	is_int(0, tarn_save(in("l"), items, n + 2, &o, &info),
		"%s: large tensors are saved, aligned to %u%s: %s", engine,
		align, checksums ? ", with checksums" : "",
		tarn_error_message());
	holds(in("l"), items, n + 2,
		"the saved large tensors have their elements");
	ok(info.written >= info.bytes && info.bytes > 10000000,
		"the counters add up to the saved bytes");
	if (tarn_file_open(in("l"), &file) < 0)
		bail("%s", tarn_error_message());
	ok(tarn_file_at(file, 0)->file_offset % (align ? align : 4096) == 0,
		"the saved tensors are aligned as asked");
	if (checksums)
		is_int(0, tarn_file_verify(file, NULL, NULL),
			"the aligned file passes verification");
	tarn_file_unref(file);
	drop(items, n + 2);
	clear_folder();
}

/* From a file, as it is and as views, onto itself as well. */
static void test_from_file(void)
{
	struct tarn_save_item items[] = {
		item_of("a", MADE(TARN_F32, 1, 300, 1001)),
		item_of("b", MADE(TARN_U16, 2, 500001)),
		item_of("c", MADE(TARN_U8, 3, 10)),
	};
	struct tarn_save_item views[3], turned = item_of("t", NULL);
	struct tarn_save_options o = {.engine = engine, .checksums = true};
	tarn_file *file = NULL;
	tarn_tensor *whole = NULL;

	is_int(0, save("f", items, 3), "%s: a file is saved to be saved again",
		engine);
	if (tarn_file_open(in("f"), &file) < 0)
		bail("%s", tarn_error_message());
	for (int i = 0; i < 3; i++) {
		tarn_tensor *t;

		if (tarn_file_tensor(file, items[i].name, &t) < 0)
			bail("%s", tarn_error_message());
		views[i] = item_of(items[i].name, t);
	}
	is_int(0, tarn_save(in("f"), views, 3, &o, NULL),
		"%s: tensors of a file are saved onto that file: %s", engine,
		tarn_error_message());
	holds(in("f"), items, 3,
		"the file that was saved onto itself has its elements");
	whole = tarn_tensor_ref((tarn_tensor *)items[0].tensor);
	turned.tensor = viewed(tarn_tensor_ref((tarn_tensor *)views[0].tensor),
		"[:, 3:50].transpose(0,1)");
	is_int(0, tarn_save(in("g"), &turned, 1, &o, NULL),
		"%s: a transposed slice of a file is saved: %s", engine,
		tarn_error_message());
	drop(&turned, 1);
	turned.tensor = viewed(whole, "[:, 3:50].transpose(0,1)");
	holds(in("g"), &turned, 1,
		"the saved transposed slice has its elements");
	drop(&turned, 1);
	drop(views, 3);
	drop(items, 3);
	tarn_file_unref(file);
	clear_folder();
}

static double at(const tarn_tensor *t, int64_t i, int64_t k)
{
	double value = -1;

	if (tarn_tensor_get_f64(t, (int64_t[]) {i, k}, &value) < 0)
		bail("%s", tarn_error_message());
	return value;
}

/* Converted and scaled by channel on the way, in more than one piece. */
static void test_convert(void)
{
	enum { ROWS = 1500, COLUMNS = 1000 };
	static double scale[ROWS], bias[COLUMNS];
	struct tarn_copy_options rows = {
		.scale = scale, .channels = ROWS, .channel_dim = 0};
	struct tarn_copy_options columns = {
		.bias = bias, .channels = COLUMNS, .channel_dim = -1};
	struct tarn_save_item items[] = {
		{.name = "rows",
			.tensor = MADE(TARN_U8, 1, ROWS, COLUMNS),
			.dtype = TARN_F32,
			.convert = &rows},
		{.name = "columns", .dtype = TARN_F64, .convert = &columns},
	};
	tarn_tensor *source = (tarn_tensor *)items[0].tensor, *r, *c;
	tarn_file *file = NULL;
	bool good = true;

	for (int i = 0; i < ROWS; i++)
		scale[i] = i;
	for (int i = 0; i < COLUMNS; i++)
		bias[i] = 2 * i;
	items[1].tensor = tarn_tensor_ref(source);
	is_int(0, save("c", items, 2),
		"%s: tensors are saved with conversions: %s", engine,
		tarn_error_message());
	if (tarn_file_open(in("c"), &file) < 0 ||
		tarn_file_tensor(file, "rows", &r) < 0 ||
		tarn_file_tensor(file, "columns", &c) < 0)
		bail("%s", tarn_error_message());
	for (int i = 0; i < ROWS; i += 7)
		for (int k = i % 5; k < COLUMNS; k += 131)
			good = good && at(r, i, k) == i * at(source, i, k) &&
			       at(c, i, k) == 2 * k + at(source, i, k);
	ok(good, "each saved row or column has its own scale or bias");
	is_int(TARN_F64, tarn_tensor_layout(c)->dtype,
		"the converted tensor is saved with the dtype asked for");
	tarn_tensor_unref(r);
	tarn_tensor_unref(c);
	tarn_file_unref(file);
	rows.channels = 3;
	is_int(-EINVAL, save("c", items, 2),
		"a conversion with the wrong number of channels is refused");
	has_str("tensor 'rows': scale and bias for 3 channels",
		tarn_error_message(),
		"the error names the tensor and its three channels");
	drop(items, 2);
	clear_folder();
}

static void test_npy(void)
{
	struct tarn_save_item item = item_of(NULL, MADE(TARN_F32, 1, 30, 1201));
	struct tarn_save_options o = {.engine = engine};
	struct tarn_save_pair pair = {.key = "k", .value = "v"};
	tarn_file *file = NULL;

	is_int(0, tarn_save(in("a.npy"), &item, 1, &o, NULL),
		"%s: a .npy file is saved: %s", engine, tarn_error_message());
	holds(in("a.npy"), &item, 1, "the saved .npy file has its elements");
	item.tensor =
		viewed((tarn_tensor *)item.tensor, ".transpose(0,1)[3:, :]");
	is_int(0, tarn_save(in("a.npy"), &item, 1, &o, NULL),
		"a slice is saved to a .npy file");
	holds(in("a.npy"), &item, 1,
		"the .npy file of a slice has its elements");
	drop(&item, 1);
	item.tensor = viewed(MADE(TARN_F64, 4, 700, 801), ".transpose(0,1)");
	o.format = "npy";
	is_int(0, tarn_save(in("b"), &item, 1, &o, NULL),
		"a tensor in Fortran order is saved to a .npy file");
	holds(in("b"), &item, 1,
		"the .npy file in Fortran order has its elements");
	if (tarn_file_open(in("b"), &file) < 0)
		bail("%s", tarn_error_message());
	ok(tarn_file_at(file, 0)->fortran_order,
		"the saved .npy file is of Fortran order");
	tarn_file_unref(file);
	o.pairs = &pair;
	o.n_pairs = 1;
	is_int(-EINVAL, tarn_save(in("b"), &item, 1, &o, NULL),
		"metadata in a .npy file is refused");
	o = (struct tarn_save_options) {.format = "npy", .checksums = true};
	is_int(-EINVAL, tarn_save(in("b"), &item, 1, &o, NULL),
		"checksums in a .npy file are refused");
	o.checksums = false;
	is_int(-EINVAL, tarn_save(in("b"), &item, 0, &o, NULL),
		"a .npy file without a tensor is refused");
	o.format = "pt";
	is_int(-EINVAL, tarn_save(in("b"), &item, 1, &o, NULL),
		"an unknown format is refused");
	drop(&item, 1);
	clear_folder();
}

/* What the file is told to keep, it keeps; checksums of elsewhere are not. */
static void test_metadata(void)
{
	struct tarn_save_item item = item_of("x", MADE(TARN_U8, 1, 1000));
	struct tarn_save_pair pairs[] = {
		{.key = "format", .value = "pt"},
		{.key = "xxh3:x", .value = "0123456789abcdef"},
		{.key = "note", .value = "a \"b\"\n\xc3\xa4"},
	};
	struct tarn_save_options o = {
		.pairs = pairs, .n_pairs = 3, .engine = engine};
	tarn_file *file = NULL;
	const char *key = "", *value = "", *note = NULL;
	uint64_t sum = 0;

	is_int(0, tarn_save(in("m"), &item, 1, &o, NULL),
		"a file with metadata is saved");
	if (tarn_file_open(in("m"), &file) < 0)
		bail("%s", tarn_error_message());
	is_int(2, (int64_t)tarn_file_metadata_count(file),
		"the saved metadata has two pairs");
	is_int(-ENOENT, tarn_file_checksum(file, "x", &sum),
		"checksums of the old file are not saved");
	for (size_t i = 0; i < 2; i++)
		if (tarn_file_metadata_at(file, i, &key, &value) == 0 &&
			!strcmp(key, "note"))
			note = value;
	is_str(pairs[2].value, note ? note : "no such key",
		"a note of JSON's special characters is read as it was saved");
	tarn_file_unref(file);
	o.checksums = true;
	is_int(0, tarn_save(in("m"), &item, 1, &o, NULL),
		"a save with checksums succeeds");
	if (tarn_file_open(in("m"), &file) < 0)
		bail("%s", tarn_error_message());
	is_int(0, tarn_file_checksum(file, "x", &sum),
		"a saved tensor has a checksum");
	is_hex(XXH3_64bits(tarn_tensor_data(item.tensor), 1000), sum,
		"the saved checksum is that of the tensor's bytes");
	tarn_file_unref(file);
	drop(&item, 1);
	clear_folder();
}

/* A tensor that must have a checksum is saved with that one, or not at all. */
static void test_wanted(void)
{
	struct tarn_save_item items[] = {item_of("a", MADE(TARN_F32, 1, 70)),
		item_of("b", MADE(TARN_U8, 2, 300000)),
		item_of("e", MADE(TARN_U8, 3, 0))};
	uint64_t b = XXH3_64bits(tarn_tensor_data(items[1].tensor), 300000);
	uint64_t e = XXH3_64bits("", 0), other = b ^ 1;
	struct tarn_save_options o = {.checksums = true, .engine = engine};

	items[1].checksum = &other;
	is_refused(-EBADMSG, "tensor 'b' is damaged where it comes from",
		tarn_save(in("w"), items, 3, &o, NULL),
		"a source with a wrong checksum is refused");
	items[1].checksum = &b;
	items[2].checksum = &b;
	is_refused(-EBADMSG, "tensor 'e' is damaged",
		tarn_save(in("w"), items, 3, &o, NULL),
		"a source of no bytes with a wrong checksum is refused");
	items[2].checksum = &e;
	is_int(0, tarn_save(in("w"), items, 3, &o, NULL),
		"sources with right checksums are saved: %s",
		tarn_error_message());
	holds(in("w"), items, 3,
		"the saved tensors with checksums have their elements");
	clear_folder();
	is_refused(-EINVAL, "needs checksums", save("w", items, 3),
		"a source's checksum is refused in a save without checksums");
	drop(items, 3);
}

static int stop_at_third(void *arg, uint64_t done, uint64_t total)
{
	return ++*(int *)arg == 3 || done > total;
}

static void test_progress(void)
{
	struct tarn_save_item item = item_of("x", MADE(TARN_U8, 1, 20 << 20));
	int calls = 0;
	struct tarn_save_options o = {
		.progress = stop_at_third, .arg = &calls, .engine = engine};

	is_int(-ECANCELED, tarn_save(in("p"), &item, 1, &o, NULL),
		"%s: a save is cancelled by its progress", engine);
	has_str("/p: cancelled", tarn_error_message(),
		"the error contains '/p: cancelled'");
	is_str("", listing(), "a cancelled save leaves no file");
	drop(&item, 1);
}

/* Many at once to one path: one of them whole. */
static void test_race(void)
{
	enum { SAVERS = 4, ROUNDS = 10 };
	struct tarn_save_item items[SAVERS];
	pid_t pids[SAVERS];
	int good = 0;

	for (int i = 0; i < SAVERS; i++)
		items[i] = item_of(
			"x", MADE(TARN_U8, 100 * (unsigned)i, 300000 + i));
	for (int i = 0; i < SAVERS; i++) {
		pids[i] = fork();
		for (int k = 0; pids[i] == 0 && k < ROUNDS; k++)
			if (tarn_save(in("r"), &items[i], 1, NULL, NULL) < 0)
				_exit(1);
		if (pids[i] == 0)
			_exit(0);
	}
	for (int i = 0; i < SAVERS; i++) {
		int status = 1;

		waitpid(pids[i], &status, 0);
		good += status == 0;
	}
	is_int(SAVERS, good, "all saves to one path succeed");
	is_str("r", listing(), "concurrent saves to one path leave one file");
	good = 0;
	for (int i = 0; i < SAVERS; i++) {
		tarn_file *file = NULL;

		if (tarn_file_open(in("r"), &file) < 0)
			bail("%s", tarn_error_message());
		if (tarn_file_at(file, 0)->nbytes == 300000u + (unsigned)i)
			good += holds(in("r"), &items[i], 1,
				"the file of concurrent saves is that of one "
				"save");
		tarn_file_unref(file);
	}
	is_int(1, good, "the file of concurrent saves is whole");
	drop(items, SAVERS);
	clear_folder();
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
	static const char *const engines[] = {"threads", "io_uring"};

	for (unsigned i = 0; i < 2; i++) {
		engine = engines[i];
		if (!works(engine)) {
			skip(82, "no %s here: %s", engine,
				tarn_error_message());
			continue;
		}
		test_views();
		for (unsigned k = 0; k < 8; k++)
			test_large(k & 1 ? 4096 : 0, k & 2, k & 4);
		test_from_file();
		test_convert();
		test_npy();
		test_metadata();
		test_wanted();
		test_progress();
	}
	test_race();
	return done(168);
}
