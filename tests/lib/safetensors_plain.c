// SPDX-License-Identifier: MIT
/*
 * Entries of a safetensors header are read by a short way or by a long one,
 * with the same result: headers as writers make them, and mutants of them, are
 * opened with the short way and without it. The verdict, the sentence, and all
 * fields of the opened file must be the same, through any size of window.
 *
 * TARN_TEST_SEED repeats a run, TARN_TEST_ROUNDS makes it longer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/file/safetensors.h"
#include "tests/kit/file_bytes.h"
#include "tests/kit/tap.h"

#define HEADER_MAX 1024
#define ROUNDS 30000

static uint64_t state;

/* xorshift64*: seeded, the same everywhere. */
static uint64_t next_random(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1d;
}

static size_t below(size_t n)
{
	return next_random() % n;
}

/* What an open file tells, and what was said of one that was refused. */
struct outcome {
	int r;
	char text[4096];
};

static void append_pair(
	struct outcome *o, size_t *used, const char *name, int64_t n)
{
	int more = snprintf(o->text + *used, sizeof(o->text) - *used,
		"%s %lld ", name, (long long)n);

	*used += (size_t)more;
	if (*used >= sizeof(o->text))
		bail("more is told than there is room for");
}

static void open_one(const char *bytes, size_t size, struct outcome *o)
{
	tarn_file *file = NULL;
	size_t used = 0;

	memset(o, 0, sizeof(*o));
	o->r = bytes_open(bytes, size, "f", &file);
	if (o->r < 0) {
		snprintf(o->text, sizeof(o->text), "%s", tarn_error_message());
		return;
	}
	bytes_walk(file);
	for (size_t i = 0; i < tarn_file_count(file); i++) {
		const struct tarn_file_entry *t = tarn_file_at(file, i);

		append_pair(o, &used, t->name, (int64_t)t->name_size);
		append_pair(o, &used, "at", (int64_t)t->file_offset);
		append_pair(o, &used, "bytes", (int64_t)t->nbytes);
		append_pair(o, &used, "dtype", t->dtype);
		append_pair(o, &used, t->fortran_order ? "f" : "c", t->ndim);
		for (int k = 0; k < t->ndim; k++)
			append_pair(o, &used, "", (int64_t)t->shape[k]);
	}
	append_pair(
		o, &used, "metadata", (int64_t)tarn_file_metadata_count(file));
	tarn_file_unref(file);
}

/* A window that no member fits into, one that some do, and one that all do. */
static void choose_window(void)
{
	static const size_t windows[] = {20, 100, 1 << 20};

	safetensors_window = windows[below(3)];
}

/* Both ways; false when they differ. */
static bool agree(const char *header, size_t data, int *ret)
{
	struct outcome plain, thorough;
	size_t size;
	char *bytes = bytes_safetensors(header, data, &size);

	choose_window();
	open_one(bytes, size, &plain);
	safetensors_plain_on = false;
	safetensors_window = 1 << 20;
	open_one(bytes, size, &thorough);
	safetensors_plain_on = true;
	free(bytes);
	*ret = plain.r;
	if (plain.r == thorough.r && !strcmp(plain.text, thorough.text))
		return true;
	diag("%s", header);
	diag("short way: %d %s", plain.r, plain.text);
	diag("long way: %d %s", thorough.r, thorough.text);
	return false;
}

static const struct {
	const char *entry;
	bool plain;
} taken[] = {
	{"{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}", true},
	{" { \"shape\" : [ ] ,\n\t\"data_offsets\" : [ 8 , 10 ] , "
	 "\"dtype\" : \"BF16\" } ",
		true},
	{"{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]}", true},
	{"{\"dtype\":\"F32\",\"shape\":[02],\"data_offsets\":[0,8]}", false},
	{"{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}", false},
	{"{\"dtype\":\"F32\",\"shape\":[2e0],\"data_offsets\":[0,8]}", false},
	{"{\"dtype\":\"F32\",\"shape\":[0,1234567890123456789],"
	 "\"data_offsets\":[0,0]}",
		false},
	{"{\"dtype\":\"F32\",\"shape\":[2,],\"data_offsets\":[0,8]}", false},
	{"{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],}", false},
	{"{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],"
	 "\"shape\":[2]}",
		false},
	{"{\"dtype\":\"F32\",\"shape\":[2],\"x\":0,"
	 "\"data_offsets\":[0,8]}",
		false},
	{"{\"dtype\":\"f32\",\"shape\":[2],\"data_offsets\":[0,8]}", false},
	{"{\"dtype\":\"F3\",\"shape\":[2],\"data_offsets\":[0,8]}", false},
	{"{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}", false},
	{"{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}", false},
	{"{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}", false},
	{"{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]", false},
	{"[\"F32\",[2],[0,8]]", false},
	{"", false},
};

/* Is the short way taken at all? It must be for what writers write, and must
 * not for what is unusual, or the rest of this test says nothing. */
static void test_taken(void)
{
	for (size_t i = 0; i < sizeof(taken) / sizeof(*taken); i++) {
		struct tarn_file file = {0};
		struct tarn_file_entry tensor = {0};
		struct safetensors_like like = {0};
		size_t n = strlen(taken[i].entry);
		/* Of exactly that size, so that a look past it is seen. */
		char *text = malloc(n + !n);
		const char *end;

		memcpy(text, taken[i].entry, n);
		end = safetensors_plain(&file,
			(struct json_text) {text, text + n}, &like, &tensor);
		is_int(taken[i].plain, end != NULL,
			"the short way is taken or not as expected, %s: %s",
			taken[i].plain ? "goes" : "does not go",
			taken[i].entry);
		if (end)
			ok(end[-1] == '}', "the short way ends behind the '}'");
		free(text);
		arena_free(&file.arena);
	}
}

/* Every prefix, at whose end the next look would be past it; also of one that
 * was there before. */
static void test_prefixes(void)
{
	static const char entry[] = "{\"dtype\":\"F32\",\"shape\":[2,3],"
				    "\"data_offsets\":[0,24]}";
	const struct json_text whole = {entry, entry + strlen(entry)};
	int refused = 0;

	for (size_t n = 0; n < 2 * strlen(entry); n++) {
		struct tarn_file file = {0};
		struct tarn_file_entry tensor = {0};
		struct safetensors_like like = {0};
		size_t size = n / 2;
		char *text = malloc(size + !size);

		if (n % 2 && !safetensors_plain(&file, whole, &like, &tensor))
			bail("the entry itself is refused");
		memcpy(text, entry, size);
		refused += !safetensors_plain(&file,
			(struct json_text) {text, text + size}, &like, &tensor);
		free(text);
		arena_free(&file.arena);
	}
	is_int(2 * (int)strlen(entry), refused,
		"no prefix of an entry is taken as a whole entry");
}

enum way { LIKE, ANEW, REFUSED };

static const struct {
	const char *entry;
	enum way way;
} alike[] = {
	{"{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[24,48]}", LIKE},
	{"{\"dtype\":\"F32\",\"shape\":[2,3],"
	 "\"data_offsets\":[ 24 ,\n48 ] }",
		LIKE},
	{"{\"dtype\":\"F32\",\"shape\":[2,3],"
	 "\"data_offsets\": [24,48]}",
		ANEW},
	{"{\"dtype\":\"I32\",\"shape\":[2,3],\"data_offsets\":[24,48]}", ANEW},
	{"{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[24,48]}", ANEW},
	{"{\"dtype\":\"F32\",\"data_offsets\":[24,48],\"shape\":[2,3]}", ANEW},
	{"{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[24,47]}",
		REFUSED},
	{"{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[48,24]}",
		REFUSED},
	{"{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[024,48]"
	 "}",
		REFUSED},
	{"{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[24,48],"
	 "}",
		REFUSED},
	{"{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[24,48],"
	 "\"shape\":[2,3]}",
		REFUSED},
	{"{\"dtype\":\"F32\",\"shape\":[2,3],"
	 "\"data_offsets\":[24,48,72]}",
		REFUSED},
};

/* What follows an entry is taken for like it where it is, and nowhere else. */
static void test_like(void)
{
	static const char first[] = "{\"dtype\":\"F32\",\"shape\":[2,3],"
				    "\"data_offsets\":[0,24]}";
	for (size_t i = 0; i < sizeof(alike) / sizeof(*alike); i++) {
		struct tarn_file file = {0};
		struct tarn_file_entry one = {0}, two = {0};
		struct safetensors_like like = {0};
		const char *end = first + strlen(first);
		enum way way = REFUSED;

		safetensors_plain(
			&file, (struct json_text) {first, end}, &like, &one);
		end = alike[i].entry + strlen(alike[i].entry);
		if (safetensors_plain(&file,
			    (struct json_text) {alike[i].entry, end}, &like,
			    &two) == end)
			way = two.shape == one.shape ? LIKE : ANEW;
		is_int(alike[i].way, way,
			"an entry behind another takes the same way: %s",
			alike[i].entry);
		ok(way == REFUSED ||
				(two.file_offset == 24 && two.nbytes == 24 &&
					two.ndim == 2 && two.dtype),
			"an entry behind another is read as it is alone");
		arena_free(&file.arena);
	}
}

static const char *const words[] = {"\"", "{", "}", "[", "]", ":", ",", "-",
	"-0", "0", "1", "24", ".0", "e0", "E1", "9223372036854775807",
	"18446744073709551616", "999999999999999999", "null", "\\u0000",
	"\\u0064type", "\xff", "\xc3\xa4", "\"dtype\":\"U8\",", "\"F32\"",
	"\"shape\":[0],", "\"__metadata__\":{},", "\"x\":1,", " ", "\n", "\t",
	"\v", "a", "F4", "{\"F32\":null}"};

static void mutate(char *text)
{
	const char *word = words[below(sizeof(words) / sizeof(*words))];
	size_t size = strlen(text), n = strlen(word), at = below(size + 1);
	size_t left = size - at;

	switch (below(4)) {
	case 0: /* inserted */
		if (size + n >= HEADER_MAX)
			return;
		memmove(text + at + n, text + at, left + 1);
		memcpy(text + at, word, n);
		return;
	case 1: /* removed */
		n = left ? below(left < 8 ? left : 8) + 1 : 0;
		n = n > left ? left : n;
		memmove(text + at, text + at + n, left - n + 1);
		return;
	case 2: /* overwritten */
		if (n <= left)
			memcpy(text + at, word, n);
		return;
	default:
		if (left)
			text[at] = (char)(1 + below(255));
	}
}

static void test_mutants(void)
{
	static const char header[] =
		"{\"__metadata__\":{\"a\":\"b\"},\"w\":{\"dtype\":\"F32\","
		"\"shape\":[2,3],\"data_offsets\":[0,24]},\"v\":{\"shape\": "
		"[], "
		"\"data_offsets\": [24, 26], \"dtype\": \"BF16\"},\"u\":{"
		"\"data_offsets\":[26,30],\"dtype\":\"F4\",\"shape\":[4,2]},"
		"\"like\":{\"dtype\":\"U8\",\"shape\":[1,4],"
		"\"data_offsets\":[30,34]},\"likewise\":{\"dtype\":\"U8\","
		"\"shape\":[1,4],\"data_offsets\":[34,38]}}";
	const char *more = getenv("TARN_TEST_ROUNDS");
	unsigned rounds = more ? (unsigned)atoi(more) : ROUNDS;
	unsigned accepted = 0, differ = 0;
	char mutant[HEADER_MAX + 1];
	int r;

	ok(agree(header, 38, &r) && r == 0,
		"the header without mutations is read");
	for (unsigned i = 0; i < rounds; i++) {
		strcpy(mutant, header);
		for (size_t steps = 1 + below(3); steps > 0; steps--)
			mutate(mutant);
		differ += !agree(mutant, 38, &r);
		accepted += r == 0;
	}
	is_int(0, differ, "the two ways agree on all mutants");
	ok(accepted > rounds / 100 && accepted < rounds,
		"%u of %u mutants are accepted", accepted, rounds);
}

int main(void)
{
	const char *seed = getenv("TARN_TEST_SEED");

	state = seed ? strtoull(seed, NULL, 10) : 20261121;
	state += !state;
	diag("TARN_TEST_SEED=%llu", (unsigned long long)state);
	test_taken();
	test_prefixes();
	test_like();
	test_mutants();
	return done(50);
}
