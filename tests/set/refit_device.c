/* SPDX-License-Identifier: MIT */
/*
 * Refits of sets on a device, with the stand-in for the driver, whose account
 * fails a case if anything leaks; and what goes wrong there.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "tests/cuda/cases.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"
#include "tests/set/refits.h"

static struct tarn_cuda_device gpu;

static void on_device(void (*behaviour)(void))
{
	must(tarn_cuda_device("0", &gpu));
	for (int i = 0; i < 2; i++) {
		refits_digests = i;
		refits_begin(&gpu, NULL);
		behaviour();
		refits_end();
	}
}

#define BEHAVIOUR(name)                                                        \
	static void name(void)                                                 \
	{                                                                      \
		on_device(refits_##name);                                      \
	}
BEHAVIOUR(versions)
BEHAVIOUR(fields)
BEHAVIOUR(buckets)
BEHAVIOUR(parts)
BEHAVIOUR(sparse)
BEHAVIOUR(sparse_refused)
BEHAVIOUR(ties)
BEHAVIOUR(ties_apart)
BEHAVIOUR(ties_late)
BEHAVIOUR(small)
BEHAVIOUR(packs)
BEHAVIOUR(overlaps)
BEHAVIOUR(sharing)
BEHAVIOUR(refused)
BEHAVIOUR(added)
BEHAVIOUR(overtaken)
BEHAVIOUR(aborted)
BEHAVIOUR(file)
BEHAVIOUR(file_shrinks)
BEHAVIOUR(killed)

/* ---- two devices --------------------------------------------------------- */

static void check_on(const char *name, const struct tarn_cuda_device *device)
{
	struct tarn_cuda_device seen;
	tarn_tensor *t;

	must(tarn_store_lookup(refits_store, name, &t));
	check(tarn_storage_device(tarn_tensor_storage(t), &seen) == 1 &&
			!memcmp(&seen, device, sizeof(seen)),
		"%s is on its device", name);
	tarn_tensor_unref(t);
}

/* Shards of a set on two devices each stay on theirs; or all go to one. */
static void two_devices(void)
{
	struct tarn_refit_options options = {.share_equal = true};
	tarn_tensor *t = refits_numbers(TARN_F32, ROWS, COLUMNS, 5);
	tarn_tensor *u = refits_numbers(TARN_BF16, ROWS, COLUMNS, 6), *a, *b;
	struct tarn_cuda_device other;
	struct tarn_publish_item items[2] = {{.name = "a"}, {.name = "b"}};
	tarn_refit *refit;

	must(tarn_cuda_device("0", &gpu));
	must(tarn_cuda_device("1", &other));
	refits_begin(&gpu, NULL);
	must(tarn_tensor_to_device(t, &gpu, NULL, &a));
	must(tarn_tensor_to_device(t, &other, NULL, &b));
	items[0].tensor = a;
	items[1].tensor = b;
	must(tarn_set_publish(refits_store, "w", items, 2, NULL, NULL));
	refit = refits_refit(&options);
	/* From the other device. */
	must(tarn_refit_put(refit, "a", b));
	must(tarn_refit_put(refit, "b", u));
	must(tarn_refit_commit(refit));
	tarn_refit_free(refit);
	refits_check("a", TARN_F32, ROWS, COLUMNS, 5, "equal");
	refits_check("b", TARN_F32, ROWS, COLUMNS, 6, "put");
	check_on("w/a", &gpu);
	check_on("w/b", &other);
	options = (struct tarn_refit_options) {.device = &other};
	refit = refits_refit(&options);
	must(tarn_refit_put(refit, "a", a));
	must(tarn_refit_commit(refit));
	tarn_refit_free(refit);
	refits_check("a", TARN_F32, ROWS, COLUMNS, 5, "moved");
	check_on("w/a", &other);
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
	tarn_tensor_unref(t);
	tarn_tensor_unref(u);
	refits_end();
}

/* Tensors of the host that are equal move to the device nevertheless. */
static void from_host(void)
{
	const struct tarn_refit_options options = {
		.share_equal = true, .device = &gpu};
	static const char *const names[] = {"a"};
	tarn_tensor *t = refits_numbers(TARN_F32, ROWS, COLUMNS, 5);
	tarn_tensor *held = tarn_tensor_ref(t);
	tarn_refit *refit;

	must(tarn_cuda_device("0", &gpu));
	refits_begin(&gpu, NULL);
	refits_publish_all(names, &t, 1, NULL);
	refit = refits_refit(&options);
	refits_put(refit, "a", held);
	refits_commit(refit);
	refits_check("a", TARN_F32, ROWS, COLUMNS, 5, "equal");
	check_on("w/a", &gpu);
	refits_end();
}

static void fields_there(void)
{
	const int64_t n = 100;
	tarn_set_fields *fields = NULL;
	tarn_tensor *t;

	must(tarn_cuda_device("0", &gpu));
	refits_begin(&gpu, NULL);
	must(tarn_tensor_zeros(TARN_U8, 1, &n, &t));
	t = refits_placed(t);
	must(tarn_store_publish_one(
		refits_store, "w/" TARN_SET_FIELDS, t, NULL, NULL));
	tarn_tensor_unref(t);
	check_failed(-EBADMSG, "a tensor on a device is no fields",
		tarn_set_fields_open(refits_store, "w", &fields),
		"fields on a device");
	refits_end();
}

/* ---- many ---------------------------------------------------------------- */

/* Each of the first ones has a bucket of its own, and a publication has 64. */
static void many(void)
{
	enum { TENSORS = 200 };
	const struct tarn_refit_options options = {
		.add = true, .device = &gpu, .bucket_bytes = 40000};
	char name[16];
	tarn_refit *refit;

	must(tarn_cuda_device("0", &gpu));
	refits_begin(&gpu, NULL);
	refit = refits_refit(&options);
	for (int i = 0; i < TENSORS; i++) {
		tarn_tensor *t = refits_numbers(TARN_F32, 100, 100, i);

		snprintf(name, sizeof(name), "%d", i);
		must(tarn_refit_put(refit, name, t));
		tarn_tensor_unref(t);
	}
	must(tarn_refit_commit(refit));
	tarn_refit_free(refit);
	for (int i = 0; i < TENSORS; i += 7) {
		snprintf(name, sizeof(name), "%d", i);
		refits_check(name, TARN_F32, 100, 100, i, "one of many");
	}
	refits_end();
}

/* ---- faults -------------------------------------------------------------- */

/* The device has room for the set, and beside other memory for two buckets of
 * its next version. */
static void no_room(void)
{
	const struct tarn_refit_options options = {.bucket_bytes = 2500000};
	tarn_tensor *t = refits_numbers(TARN_F32, ROWS, COLUMNS, 7);
	tarn_storage *other;
	tarn_refit *refit;
	uint64_t before;
	int r;

	must(tarn_cuda_device("0", &gpu));
	refits_begin(&gpu, NULL);
	refits_publish(ROWS, COLUMNS);
	before = refits_kept();
	must(tarn_cuda_alloc(&gpu, 6 << 20, &other));
	refit = refits_refit(&options);
	r = tarn_refit_put(refit, "a", t);
	if (r >= 0)
		r = tarn_refit_put(refit, "b", t);
	if (r >= 0)
		r = tarn_refit_put(refit, "c", t);
	if (r >= 0)
		r = tarn_refit_commit(refit);
	check_failed(-ENOMEM, "refit: ", r, "a version without room for it");
	tarn_refit_free(refit);
	refits_check("a", TARN_F32, ROWS, COLUMNS, 1, "after that");
	refits_check_kept(before, "after that");
	/* What it took is free again. */
	refit = refits_refit(&options);
	must(tarn_refit_put(refit, "a", t));
	must(tarn_refit_commit(refit));
	tarn_refit_free(refit);
	refits_check("a", TARN_F32, ROWS, COLUMNS, 7, "a smaller version");
	tarn_storage_unref(other);
	tarn_tensor_unref(t);
	refits_end();
}

/* A set of small tensors, "0", "1" and so on. */
static void begin_small(int tensors)
{
	const struct tarn_refit_options add = {.add = true, .device = &gpu};
	tarn_refit *refit;
	char name[16];

	must(tarn_cuda_device("0", &gpu));
	refits_begin(&gpu, NULL);
	refit = refits_refit(&add);
	for (int i = 0; i < tensors; i++) {
		snprintf(name, sizeof(name), "%d", i);
		refits_put(refit, name, refits_numbers(TARN_F32, 1, 2, i));
	}
	refits_commit(refit);
}

/* [i, i + 1] becomes [9, i + 1]. */
static int put_nine(tarn_refit *refit, const char *name)
{
	const int64_t n = 1;
	tarn_tensor *positions, *values;
	int r;

	must(tarn_tensor_zeros(TARN_I64, 1, &n, &positions));
	must(tarn_tensor_full(TARN_F32, 1, &n, 9, &values));
	r = tarn_refit_sparse(refit, name, positions, values);
	tarn_tensor_unref(positions);
	tarn_tensor_unref(values);
	return r;
}

static void check_nine(const char *name, int i)
{
	tarn_tensor *wanted = refits_numbers(TARN_F32, 1, 2, i);
	tarn_tensor *t = refits_found(name);

	must(tarn_tensor_set_f64(wanted, (const int64_t[]) {0, 0}, 9));
	check(refits_equal(t, wanted), "the first of '%s' is new", name);
	tarn_tensor_unref(t);
	tarn_tensor_unref(wanted);
}

/* What waits holds whole granules, of which the device has few: positions and
 * values, or, where equal ones are looked for, converted tensors. */
static void held(void)
{
	enum { TENSORS = 40 };
	const struct tarn_refit_options equal = {.share_equal = true};
	const struct tarn_refit_options early = {.bucket_bytes = 8 << 20};
	struct tarn_refit_info info = {0};
	tarn_refit *refit;
	char name[16];

	begin_small(TENSORS);
	for (int round = 0; round < 2; round++) {
		refit = refits_refit(round ? &equal : NULL);
		for (int i = 0; i < TENSORS; i++) {
			snprintf(name, sizeof(name), "%d", i);
			if (round)
				refits_put(refit, name,
					refits_numbers(TARN_F64, 1, 2, i));
			else
				must(put_nine(refit, name));
		}
		refits_commit(refit);
		if (round)
			refits_check(name, TARN_F32, 1, 2, TENSORS - 1, "put");
		else
			check_nine(name, TENSORS - 1);
	}
	refit = refits_refit(&early);
	for (int i = 0; i < 12; i++) {
		snprintf(name, sizeof(name), "%d", i);
		must(put_nine(refit, name));
	}
	tarn_refit_progress(refit, &info);
	check(info.bytes_moved > 0, "what is held counts as waiting");
	tarn_refit_free(refit);
	refits_end();
}

/* All that is left of the device's memory. */
static size_t take_all(tarn_storage **ret, size_t n)
{
	size_t i = 0;

	while (i < n && tarn_cuda_alloc(&gpu, 1, &ret[i]) >= 0)
		i++;
	return i;
}

static void give_all(tarn_storage **storages, size_t n)
{
	while (n > 0)
		tarn_storage_unref(storages[--n]);
}

/* A call that fails has put nothing; one that succeeds has, and waits. */
static void put_again(void)
{
	const struct tarn_refit_options options = {.bucket_bytes = 1};
	tarn_storage *all[64];
	tarn_refit *refit;
	size_t n;

	begin_small(2);
	refit = refits_refit(&options);
	n = take_all(all, ARRAY_SIZE(all));
	check_failed(-ENOMEM, "refit: '0': ", put_nine(refit, "0"),
		"positions without memory");
	refits_put(refit, "1", refits_numbers(TARN_F32, 1, 2, 50));
	check_failed(-ENOMEM, "refit: ", tarn_refit_flush(refit),
		"a flush without memory");
	give_all(all, n);
	must(tarn_refit_flush(refit));
	must(put_nine(refit, "0"));
	refits_commit(refit);
	check_nine("0", 0);
	refits_check("1", TARN_F32, 1, 2, 50, "put without memory");
	refits_end();
}

#define ATTEMPT_BUCKET UINT64_C(2500000)

/* A call of the driver that fails, each in turn: the refit succeeds, or fails
 * with a sentence and leaves the old version; never does it leak. */
static unsigned attempt(const char *call, int after)
{
	const struct tarn_refit_options options = {
		.bucket_bytes = ATTEMPT_BUCKET};
	tarn_tensor *t = refits_numbers(TARN_F16, ROWS, COLUMNS, 7);
	int64_t n = 2;
	tarn_tensor *positions, *values;
	tarn_refit *refit = NULL;
	unsigned failures;
	char text[32], name[48];
	int r;

	must(tarn_tensor_parse(TARN_I64, "[3, 599999]", &positions));
	must(tarn_tensor_full(TARN_F32, 1, &n, 9, &values));
	snprintf(text, sizeof(text), "%d", (int)count_of(call) + after);
	snprintf(name, sizeof(name), "%s_AFTER", call);
	case_set(name, text);
	case_set(call, "999");
	r = tarn_refit_begin(refits_store, "w", &options, &refit);
	if (r >= 0)
		r = tarn_refit_put(refit, "a", t);
	if (r >= 0)
		r = tarn_refit_sparse(refit, "b", positions, values);
	if (r >= 0)
		r = tarn_refit_commit(refit);
	failures = (unsigned)check_says(r, call);
	case_set(call, "0");
	tarn_refit_free(refit);
	tarn_tensor_unref(positions);
	tarn_tensor_unref(values);
	tarn_tensor_unref(t);
	return failures;
}

static void faults(void)
{
	static const char *const calls[] = {"MEMORY_CREATE", "ADDRESS_RESERVE",
		"MEMORY_MAP", "MEMORY_SET_ACCESS", "STREAM_CREATE",
		"EVENT_CREATE", "EVENT_RECORD", "LAUNCH", "COPY", "EXPORT",
		"CONTEXT_PUSH"};
	unsigned failures = 0;
	/* Two buckets, and "c" as it was published. */
	const uint64_t kept = 2 * ATTEMPT_BUCKET + BYTES;

	must(tarn_cuda_device("0", &gpu));
	refits_begin(&gpu, NULL);
	refits_publish(ROWS, COLUMNS);
	check(attempt("NONE", 0) == 0, "no call fails");
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		for (int after = 0; after < 6; after++) {
			failures += attempt(calls[i], after);
			/* Also a new version's predecessor goes a moment after
			 * it, so this waits in either case. */
			refits_check_kept(kept, calls[i]);
		}
	check(failures >= 10, "%u refits failed, too few", failures);
	refits_check("c", TARN_F32, ROWS, COLUMNS, 3, "after faults");
	refits_end();
}

/* Work fails, and with it all that follows in the context. */
static void lost(void)
{
	const struct tarn_refit_options options = {.bucket_bytes = 1000000};
	tarn_tensor *t = refits_numbers(TARN_F32, ROWS, COLUMNS, 7);
	tarn_refit *refit;
	int r;

	must(tarn_cuda_device("0", &gpu));
	refits_begin(&gpu, NULL);
	refits_publish(ROWS, COLUMNS);
	refit = refits_refit(&options);
	case_set("WORK", "719");
	r = tarn_refit_put(refit, "a", t);
	if (r >= 0)
		r = tarn_refit_commit(refit);
	check(check_says(r, "a device that is lost"), "it is an error");
	check(tarn_refit_commit(refit) < 0, "it stays one");
	tarn_refit_free(refit);
	tarn_tensor_unref(t);
	refits_end();
}

static void no_kernels(void)
{
	tarn_tensor *positions, *t;
	tarn_refit *refit;

	case_set("MODULE_LOAD", "209");
	must(tarn_cuda_device("0", &gpu));
	refits_begin(&gpu, NULL);
	refits_publish(ROWS, COLUMNS);
	refit = refits_refit(NULL);
	must(tarn_tensor_parse(TARN_I64, "[1]", &positions));
	check_failed(-ENOTSUP,
		"'a': ", tarn_refit_sparse(refit, "a", positions, positions),
		"positions without kernels");
	t = refits_numbers(TARN_F16, ROWS, COLUMNS, 7);
	must(tarn_refit_put(refit, "a", t));
	must(tarn_refit_commit(refit));
	tarn_refit_free(refit);
	refits_check("a", TARN_F32, ROWS, COLUMNS, 7, "put whole");
	tarn_tensor_unref(t);
	tarn_tensor_unref(positions);
	refits_end();
}

int main(int argc, char **argv)
{
	static const struct case_ cases[] = {
		{"versions", "a version is made beside the old one", versions,
			{NULL}},
		{"fields", "fields change with the tensors", fields, {NULL}},
		{"buckets", "tensors lie together in buckets", buckets, {NULL}},
		{"parts", "a tensor is put in rows", parts, {NULL}},
		{"sparse", "a tensor is put by positions and values", sparse,
			{NULL}},
		{"sparse_refused", "positions are checked", sparse_refused,
			{NULL}},
		{"ties", "tied names stay tied", ties, {NULL}},
		{"ties_apart", "tied names are found behind others", ties_apart,
			{NULL}},
		{"ties_late", "names stay tied in a bucket that has memory",
			ties_late, {NULL}},
		{"small", "many small tensors are in few buckets", small,
			{NULL}},
		{"packs", "parts of packed elements are whole bytes", packs,
			{NULL}},
		{"from_host", "equal tensors go where all shall be", from_host,
			{NULL}},
		{"fields_there", "fields on a device are refused", fields_there,
			{NULL}},
		{"overlaps", "names that share some bytes go together",
			overlaps, {NULL}},
		{"sharing", "equal tensors are shared", sharing, {NULL}},
		{"refused", "what is wrong is refused with a sentence", refused,
			{NULL}},
		{"added", "names are added", added, {NULL}},
		{"overtaken",
			"a commit leaves what others have published meanwhile",
			overtaken, {NULL}},
		{"aborted", "an abort leaves nothing", aborted, {NULL}},
		{"file", "tensors come from files", file, {NULL}},
		{"file_shrinks", "a copy that fails leaves the old version",
			file_shrinks, {NULL}},
		{"killed", "a kill leaves the old version", killed, {NULL}},
		{"two_devices", "each tensor is on its device", two_devices,
			{"DEVICES=2"}},
		{"many", "many tensors are in few buckets", many, {NULL}},
		{"no_room", "a device without room leaves the old version",
			no_room, {"MEMORY=16777216"}},
		{"held", "what waits leaves memory to the others", held,
			{"MEMORY=33554432"}},
		{"put_again", "what was not put can be put again", put_again,
			{"MEMORY=33554432"}},
		{"faults", "calls that fail leave the old version", faults,
			{"LATE=20"}},
		{"lost", "a device that is lost is reported", lost, {NULL}},
		{"no_kernels", "a device without kernels is refitted",
			no_kernels, {NULL}},
	};

	if (argc > 3 && !strcmp(argv[1], "victim"))
		refits_victim(argv[2], true);
	return cases_main(argc, argv, cases, ARRAY_SIZE(cases));
}
