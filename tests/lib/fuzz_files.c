/* SPDX-License-Identifier: MIT */
/*
 * Hostile files: valid ones cut at every byte, with every byte of the header
 * changed in every bit, and mutated at random. No verdict is wrong here, but
 * each must be a verdict: nothing read out of bounds (the sanitizers judge), a
 * sentence for each refusal, and of what is accepted every number consistent.
 * And what the reader of safetensors takes must be JSON to jansson as a whole,
 * although it was read in pieces.
 *
 * TARN_TEST_SEED repeats a run, TARN_TEST_ROUNDS makes it longer.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/file_bytes.h"
#include "tests/kit/tap.h"

#define MUTANT_MAX 4096
#define ROUNDS 20000 /* two seconds under the sanitizers */

struct verdicts {
	unsigned accepted;
	unsigned refused;
};

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
	return n ? next_random() % n : 0;
}

/* Integers over 63 bits are JSON too, jansson just does not keep them. */
static bool is_json(const char *bytes, size_t size)
{
	json_error_t error;
	json_t *root;
	uint64_t n;

	memcpy(&n, bytes, 8);
	if (n > size - 8)
		return false;
	root = json_loadb(bytes + 8, n, JSON_DECODE_INT_AS_REAL, &error);
	if (!root)
		diag("%s", error.text);
	json_decref(root);
	return root;
}

static void dump(const char *bytes, size_t size)
{
	char line[3 * 32 + 1];

	for (size_t i = 0; i < size; i += 32) {
		size_t n = 0;

		for (size_t k = i; k < size && k < i + 32; k++)
			n += (size_t)sprintf(
				line + n, "%02x ", (unsigned char)bytes[k]);
		diag("  %04zx: %s", i, line);
	}
}

static void judge(const char *bytes, size_t size, struct verdicts *v)
{
	tarn_file *file = NULL;
	int r = bytes_open(bytes, size, "mutant", &file);

	if (r == 0) {
		v->accepted++;
		bytes_walk(file);
		if (!strcmp(tarn_file_format(file), "safetensors") &&
			!is_json(bytes, size)) {
			dump(bytes, size);
			bail("accepted, and is no JSON");
		}
		tarn_file_unref(file);
		return;
	}
	v->refused++;
	if (r != -EBADMSG && r != -ENOTSUP) {
		dump(bytes, size);
		bail("%d: %s", r, tarn_error_message());
	}
	if (strncmp(tarn_error_message(), "mutant: ", 8) || file)
		bail("%d without its sentence: %s", r, tarn_error_message());
}

static void test_cuts(const char *what, const char *bytes, size_t size)
{
	struct verdicts v = {0};

	for (size_t n = 0; n < size; n++)
		judge(bytes, n, &v);
	is_int((int64_t)size, v.refused, "%s: a file cut at any byte is judged",
		what);
	judge(bytes, size, &v);
	is_int(1, v.accepted, "%s: the whole file is accepted", what);
}

static void test_flips(
	const char *what, const char *bytes, size_t size, size_t header)
{
	struct verdicts v = {0};
	char *copy = malloc(size);

	memcpy(copy, bytes, size);
	for (size_t i = 0; i < header; i++)
		for (int bit = 0; bit < 8; bit++) {
			copy[i] ^= (char)(1 << bit);
			judge(copy, size, &v);
			copy[i] = bytes[i];
		}
	free(copy);
	diag("%s: %u accepted", what, v.accepted);
	is_int(8 * (int64_t)header, v.accepted + v.refused,
		"%s: a header with any bit flipped is judged", what);
}

/* What a grammar stumbles over, rather than noise. */
static const char *const words[] = {"\"", "{", "}", "[", "]", ":", ",", "-0",
	"1e0", "9223372036854775808", "18446744073709551616", "null", "true",
	"\\u0000", "\\ud800", "\xff", "\xc3\xa4", "\"dtype\":\"U8\",", "0",
	"\"shape\":[0],", "\"__metadata__\":{},", "[[[[[[[[", "()", "(1,)",
	"'descr': '<f4',", "'", "L", "True", "\\", " ", "\n", "'>f8'"};

/* Inserts, removes, repeats or overwrites a piece. */
static size_t mutate(char *bytes, size_t size)
{
	const char *word = words[below(sizeof(words) / sizeof(*words))];
	size_t n = strlen(word), at = below(size + 1), from = below(size);

	switch (below(5)) {
	case 0:
		if (size + n > MUTANT_MAX)
			break;
		memmove(bytes + at + n, bytes + at, size - at);
		memcpy(bytes + at, word, n);
		return size + n;
	case 1:
		n = below(size - at < 16 ? size - at : 16);
		memmove(bytes + at, bytes + at + n, size - at - n);
		return size - n;
	case 2:
		n = below(size - from < 64 ? size - from : 64);
		if (size + n > MUTANT_MAX)
			break;
		memmove(bytes + at + n, bytes + at, size - at);
		memmove(bytes + at, bytes + from, n);
		return size + n;
	case 3:
		if (at + n <= size)
			memcpy(bytes + at, word, n);
		break;
	default:
		if (at < size)
			bytes[at] = (char)next_random();
	}
	return size;
}

/* With the length put right most of the time, so that mutants are read. */
static void fix_length(char *bytes, size_t size, size_t data, bool npy)
{
	uint64_t n = size - data;

	if (below(8) == 0)
		return;
	if (npy && n >= 10 && bytes[6] == 1) {
		uint16_t length = (uint16_t)(n - 10);

		memcpy(bytes + 8, &length, 2);
	} else if (!npy && n >= 8) {
		n -= 8;
		memcpy(bytes, &n, 8);
	}
}

static void test_mutants(
	const char *what, const char *bytes, size_t size, size_t data)
{
	const char *more = getenv("TARN_TEST_ROUNDS");
	unsigned rounds = more ? (unsigned)atoi(more) : ROUNDS;
	bool npy = !memcmp(bytes, "\x93NUMPY", 6);
	struct verdicts v = {0};

	for (unsigned i = 0; i < rounds; i++) {
		char mutant[MUTANT_MAX];
		size_t n = size - data, steps = 1 + below(3);

		memcpy(mutant, bytes, n);
		while (steps-- > 0)
			n = mutate(mutant, n);
		if (n + data > MUTANT_MAX)
			continue;
		memcpy(mutant + n, bytes + size - data, data);
		fix_length(mutant, n + data, data, npy);
		judge(mutant, n + data, &v);
	}
	diag("%s: %u mutants accepted, %u refused", what, v.accepted,
		v.refused);
	ok(v.refused > v.accepted && v.accepted > 0,
		"%s: some mutants are accepted and most are refused", what);
}

static void test_all(
	const char *what, const char *bytes, size_t size, size_t data)
{
	test_cuts(what, bytes, size);
	test_flips(what, bytes, size, size - data);
	test_mutants(what, bytes, size, data);
}

int main(void)
{
	static const char header[] =
		"{\"__metadata__\":{\"format\":\"pt\",\"\\u00e4\":\"x\"},"
		"\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],"
		"\"data_offsets\":[0,24]},\"b\":{\"shape\":[],\"x\":[1.5,-0],"
		"\"data_offsets\":[24,26],\"dtype\":\"BF16\"},"
		"\"c\":[\"F4\",[0,9223372036854775808],[26,26]]} ";
	static const char dict[] = "{'descr': '<f4', 'fortran_order': True, "
				   "'shape': (2, 3), }          \n";
	const char *seed = getenv("TARN_TEST_SEED");
	size_t size;
	char *bytes;

	state = seed ? strtoull(seed, NULL, 10) : 20240229;
	state += !state;
	diag("TARN_TEST_SEED=%llu", (unsigned long long)state);
	bytes = bytes_safetensors(header, 26, &size);
	test_all("safetensors", bytes, size, 26);
	free(bytes);
	bytes = bytes_npy(1, dict, 24, &size);
	test_all("npy 1.0", bytes, size, 24);
	free(bytes);
	bytes = bytes_npy(3, dict, 24, &size);
	test_cuts("npy 3.0", bytes, size);
	test_flips("npy 3.0", bytes, size, size - 24);
	free(bytes);
	return done(11);
}
