// SPDX-License-Identifier: MIT
/*
 * What tarn_gather refuses, each with the values that were wrong, before it has
 * written a byte: numbers of rows that are not there, shapes and dtypes that do
 * not belong together, a dst that may not be written, or shares its bytes. And
 * a list that changes under it never leads outside of the table.
 */
#include <tarn/gather.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static tarn_tensor *zeros(const char *spec)
{
	tarn_tensor *t = NULL;
	struct tarn_layout l;

	must(tarn_layout_parse(spec, &l));
	must(tarn_tensor_zeros(l.dtype, l.ndim, l.shape, &t));
	return t;
}

static tarn_tensor *view(tarn_tensor *t, const char *expr)
{
	tarn_tensor *v = NULL;

	must(tarn_tensor_eval(t, expr, &v));
	return v;
}

static tarn_tensor *numbers(enum tarn_dtype dtype, const char *text)
{
	tarn_tensor *t = NULL;

	must(tarn_tensor_parse(dtype, text, &t));
	return t;
}

/* ---- numbers --------------------------------------------------------- */

static const struct {
	const char *text, *part;
	int dtype, r;
} lists[] = {
	{"[0, 4, -5]", "", TARN_I64, 0},
	{"[0, 5, 7]", "number 1 of index is 5; the table has 5 rows", TARN_I64,
		-ERANGE},
	{"[0, 1, -6]", "number 2 of index is -6; the table has 5 rows",
		TARN_I32, -ERANGE},
	{"[-9223372036854775808, 0, 0]",
		"number 0 of index is -9223372036854775808;", TARN_I64,
		-ERANGE},
	{"[9223372036854775807, 0, 0]",
		"number 0 of index is 9223372036854775807;", TARN_I64, -ERANGE},
	{"[0, 0, 18446744073709551615]",
		"number 2 of index is 18446744073709551615;", TARN_U64,
		-ERANGE},
	{"[4294967295, 0, 0]", "number 0 of index is 4294967295;", TARN_U32,
		-ERANGE},
	{"[0, 200, 0]", "number 1 of index is 200;", TARN_U8, -ERANGE},
	{"[0, -128, 0]", "number 1 of index is -128;", TARN_I8, -ERANGE},
	{"[0, 1, 2]", "index is F32[3]; it must be one dimension of integers",
		TARN_F32, -EINVAL},
	{"[false, true, true]", "index is BOOL[3];", TARN_BOOL, -EINVAL},
	{"[[0, 1, 2]]", "index is I64[1, 3];", TARN_I64, -EINVAL},
	{"3", "index is I64[];", TARN_I64, -EINVAL},
};

static void bad_lists(void)
{
	tarn_tensor *table = NULL, *dst = zeros("F32[3,4]");
	tarn_tensor *zero = zeros("F32[3,4]");
	const int64_t shape[] = {5, 4};

	must(tarn_tensor_ones(TARN_F32, 2, shape, &table));
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		tarn_tensor *list = numbers(lists[i].dtype, lists[i].text);
		int r = tarn_gather(dst, table, list, NULL);

		is_int(lists[i].r, r, "by %s: %s",
			tarn_dtype_name(lists[i].dtype), lists[i].text);
		if (r < 0)
			has_str(lists[i].part, tarn_error_message(),
				"the sentence says what was wrong");
		is_int(r < 0, tarn_tensor_equal(dst, zero),
			"dst is written only then");
		memset(tarn_tensor_data(dst), 0, 3 * 4 * sizeof(float));
		tarn_tensor_unref(list);
	}
	tarn_tensor_unref(table);
	tarn_tensor_unref(dst);
	tarn_tensor_unref(zero);
}

/* ---- shapes and dtypes ----------------------------------------------- */

static const struct {
	const char *dst, *table, *list, *part;
	int r;
} shapes[] = {
	{"F32[0,4]", "F32[5,4]", "I64[0]", "", 0},
	{"F32[0]", "F32[0]", "I64[0]", "", 0},
	{"F32[2,0]", "F32[5,0]", "I64[2]", "", 0},
	{"F32[2,0]", "F32[0,0]", "I64[2]", "the table has 0 rows", -ERANGE},
	{"F32[2]", "F32[5]", "I64[2]", "", 0},
	{"F4[2,2]", "F4[5,2]", "I64[2]", "", 0},
	{"F4[2]", "F4[4]", "I64[2]",
		"a row of F4[4] is not a whole number of bytes", -ENOTSUP},
	{"F32[3,4]", "F32[5,4]", "I64[2]",
		"2 rows of a table of shape [5, 4] do not make a dst of shape "
		"[3, 4]",
		-EINVAL},
	{"F32[2,3]", "F32[5,4]", "I64[2]", "of shape [2, 3]", -EINVAL},
	{"F32[2,4,1]", "F32[5,4]", "I64[2]", "of shape [2, 4, 1]", -EINVAL},
	{"F32[4]", "F32[5,4]", "I64[1]", "of shape [4]", -EINVAL},
	{"F32[]", "F32[5]", "I64[1]", "of shape []", -EINVAL},
	{"F32[2]", "F32[]", "I64[2]", "the table has no dimension", -EINVAL},
	{"F16[2,4]", "F32[5,4]", "I64[2]", "dst is F16 and the table F32",
		-EINVAL},
};

static void bad_shapes(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		tarn_tensor *dst = zeros(shapes[i].dst);
		tarn_tensor *table = zeros(shapes[i].table);
		tarn_tensor *list = zeros(shapes[i].list);

		is_int(shapes[i].r, tarn_gather(dst, table, list, NULL),
			"%s rows of %s to %s", shapes[i].list, shapes[i].table,
			shapes[i].dst);
		if (shapes[i].r < 0)
			has_str(shapes[i].part, tarn_error_message(),
				"the sentence says what was wrong");
		tarn_tensor_unref(dst);
		tarn_tensor_unref(table);
		tarn_tensor_unref(list);
	}
}

/* ---- places ---------------------------------------------------------- */

static void shared_bytes(void)
{
	tarn_tensor *all = zeros("I64[10,4]"), *list = zeros("I64[2]");
	tarn_tensor *low = view(all, "[:5]"), *high = view(all, "[8:]");
	tarn_tensor *left = view(all, "[:2, :2]");
	tarn_tensor *right = view(all, "[:, 2:]");
	tarn_tensor *inside = view(all, "[:2]");
	tarn_tensor *repeated = view(list, ".unsqueeze(0).expand(2, 2)");
	tarn_tensor *column = view(all, "[:2, 0]");

	is_int(0, tarn_gather(high, low, list, NULL),
		"other rows of one matrix may be dst");
	is_int(0, tarn_gather(left, right, list, NULL),
		"other columns of one matrix may be dst");
	is_int(-EINVAL, tarn_gather(inside, low, list, NULL),
		"rows of the table itself may not be dst");
	has_str("dst and table share bytes", tarn_error_message(),
		"and the sentence says so");
	is_int(-EINVAL, tarn_gather(inside, high, column, NULL),
		"nor may those that the list is in");
	has_str("dst and index share bytes", tarn_error_message(),
		"and the sentence says so");
	is_int(-EINVAL, tarn_gather(repeated, right, list, NULL),
		"a dst whose rows are one is refused");
	has_str("dst meets itself", tarn_error_message(),
		"and the sentence says so");
	tarn_tensor_unref(column);
	tarn_tensor_unref(repeated);
	tarn_tensor_unref(inside);
	tarn_tensor_unref(right);
	tarn_tensor_unref(left);
	tarn_tensor_unref(high);
	tarn_tensor_unref(low);
	tarn_tensor_unref(list);
	tarn_tensor_unref(all);
}

static void bad_places(void)
{
	tarn_tensor *table = zeros("F32[5,4]"), *list = zeros("I64[2]");
	tarn_storage *lent = NULL, *file = NULL;
	tarn_tensor *dst = NULL, *in_file = NULL;
	struct tarn_gather_options options = {.threads = -1};
	int fd = memfd_create("rows", MFD_CLOEXEC);
	static float bytes[8];
	struct tarn_layout l;

	must(tarn_layout_parse("F32[2,4]", &l));
	must(tarn_storage_borrow(bytes, sizeof(bytes), 0, NULL, NULL, &lent));
	must(tarn_tensor_new(lent, 0, &l, &dst));
	is_int(-EROFS, tarn_gather(dst, table, list, NULL),
		"a read-only dst is refused");
	has_str("gather: this lent memory is read-only", tarn_error_message(),
		"and the sentence says so");
	if (fd < 0)
		bail("a file");
	must(tarn_storage_to_fd(fd, 0, sizeof(bytes), &file));
	must(tarn_tensor_new(file, 0, &l, &in_file));
	is_int(-ENOTSUP, tarn_gather(in_file, table, list, NULL),
		"a dst in a file is refused");
	has_str("tarn_copy", tarn_error_message(), "the error names tarn_copy");
	tarn_tensor_unref(dst);
	dst = zeros("F32[2,4]");
	is_int(-EINVAL, tarn_gather(dst, table, list, &options),
		"fewer threads than none are refused");
	has_str("-1 threads", tarn_error_message(), "with their number");
	tarn_tensor_unref(in_file);
	tarn_tensor_unref(dst);
	tarn_tensor_unref(list);
	tarn_tensor_unref(table);
	tarn_storage_unref(file);
	tarn_storage_unref(lent);
	close(fd);
}

/* ---- a list that changes --------------------------------------------- */

struct race {
	int64_t *number;
	atomic_bool over;
};

static void *change(void *arg)
{
	struct race *race = arg;

	while (!atomic_load(&race->over)) {
		__atomic_store_n(race->number, 1, __ATOMIC_RELAXED);
		__atomic_store_n(
			race->number, (int64_t)1 << 40, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* A row so far away would be a signal. */
static void changing_list(void)
{
	tarn_tensor *table = zeros("F32[5,66]"), *dst = zeros("F32[300,66]");
	tarn_tensor *list = zeros("I64[300]");
	int64_t *first = tarn_tensor_data(list);
	struct race race = {.number = first + 299};
	int right = 0, refused = 0, other = 0;
	int rounds = (int)test_cases(20000);
	pthread_t thread;

	if (pthread_create(&thread, NULL, change, &race) != 0)
		bail("a thread");
	for (int i = 0; i < rounds; i++) {
		int r = tarn_gather(dst, table, list, NULL);

		right += r == 0;
		refused += r == -ERANGE;
		other += r != 0 && r != -ERANGE;
	}
	atomic_store(&race.over, true);
	pthread_join(thread, NULL);
	diag("%d times right, %d times refused", right, refused);
	is_int(0, other,
		"a list that another thread changes is followed, or refused");
	tarn_tensor_unref(table);
	tarn_tensor_unref(dst);
	tarn_tensor_unref(list);
}

int main(void)
{
	bad_lists();
	bad_shapes();
	shared_bytes();
	bad_places();
	changing_list();
	return done(76);
}
