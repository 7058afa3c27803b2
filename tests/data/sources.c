/* SPDX-License-Identifier: MIT */
/*
 * Sources of all formats have the documents and tokens that were written, also
 * where several files are one. What is wrong, or changes, is an error with the
 * file's name.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/data/corpus.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static char dir[256];

static const char *in(const char *name)
{
	static char paths[16][512];
	static int next;
	char *path = paths[next++ % 16];

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

static tarn_data_source *open_one(const char *name, unsigned token_bytes)
{
	const struct tarn_data_source_options options = {
		.token_bytes = token_bytes};
	const char *path = in(name);
	tarn_data_source *s;

	must(tarn_data_source_open(&path, 1, &options, &s));
	return s;
}

static void remove_all(void)
{
	static const char *const names[] = {"a.bin", "a.idx", "b.bin", "b.idx",
		"a.ds", "a.ds.index", "a.raw", "a.npy", "a.safetensors",
		"c.bin", "c.idx"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		unlink(in(names[i]));
}

/* ---- what is there ------------------------------------------------------------ */

static bool same_tokens(
	const tarn_data_source *s, uint64_t first, size_t n, unsigned width)
{
	char *tokens = malloc(n * width + 1);
	bool same = tokens && tarn_data_source_read(s, first, n, tokens) >= 0;

	for (size_t i = 0; same && i < n; i++)
		same = corpus_value(tokens, i, width) ==
		       corpus_token(first + i, width);
	free(tokens);
	return same;
}

static bool same_document(const tarn_data_source *s, const struct corpus *c,
	size_t i, uint64_t at)
{
	uint64_t token, length, document = 0;

	if (tarn_data_source_document(s, i, &token, &length) < 0 ||
		token != at || length != c->lengths[i])
		return false;
	return !length ||
	       (tarn_data_source_find(s, at, &document) >= 0 && document == i &&
		       tarn_data_source_find(s, at + length - 1, &document) >=
			       0 &&
		       document == i);
}

static void judge(tarn_data_source *s, const struct corpus *c, unsigned width,
	const char *format)
{
	uint64_t *lengths = calloc(c->n + 1, sizeof(*lengths)), at = 0;
	struct tarn_data_source_info info;
	bool same = lengths != NULL;

	tarn_data_source_info(s, &info);
	is_str(format, info.format, "%s: the format is recognised", format);
	ok(info.token_bytes == width && info.n_tokens == c->n_tokens &&
			info.n_documents == c->n && info.has_documents,
		"%s: %llu tokens of %u bytes in %llu documents", format,
		(unsigned long long)info.n_tokens, info.token_bytes,
		(unsigned long long)info.n_documents);
	must(tarn_data_source_lengths(s, 0, c->n, lengths));
	is_mem(c->lengths, lengths, c->n * sizeof(*lengths),
		"%s of %u bytes: documents have their lengths", format, width);
	for (size_t i = 0; same && i < c->n; i++) {
		same = same_document(s, c, i, at);
		at += c->lengths[i];
	}
	ok(same, "%s of %u bytes: documents have their places", format, width);
	ok(same_tokens(s, 0, c->n_tokens, width) &&
			same_tokens(
				s, c->n_tokens / 3, c->n_tokens / 2, width) &&
			same_tokens(s, c->n_tokens, 0, width),
		"%s of %u bytes: tokens are those that were written", format,
		width);
	tarn_data_source_unref(s);
	free(lengths);
}

static void test_megatron(void)
{
	static const struct {
		unsigned code, width;
	} codes[] = {{1, 1}, {2, 1}, {3, 2}, {4, 4}, {5, 8}, {8, 2}};
	static const char *const spellings[] = {"a", "a.bin", "a.idx"};
	struct corpus c = corpus_new(5000, 60, 1);

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		corpus_megatron(&c, 0, c.n, in("a"), codes[i].code);
		judge(open_one(spellings[i % 3], 0), &c, codes[i].width,
			"megatron");
	}
	remove_all();
	corpus_free(&c);
}

static void test_several(void)
{
	struct corpus c = corpus_new(3000, 100, 2), none = corpus_new(0, 0, 0);
	const char *paths[] = {in("c"), in("a.bin"), in("b")};
	tarn_data_source *s;

	corpus_megatron(&c, 0, 1000, in("a"), 8);
	corpus_megatron(&c, 1000, 2000, in("b"), 8);
	corpus_megatron(&none, 0, 0, in("c"), 8);
	paths[0] = in("c");
	paths[1] = in("a.bin");
	paths[2] = in("b");
	must(tarn_data_source_open(paths, 3, NULL, &s));
	judge(s, &c, 2, "megatron");
	corpus_megatron(&c, 1000, 2000, in("b"), 4);
	is_int(-EINVAL, tarn_data_source_open(paths, 3, NULL, &s),
		"files of other tokens are no part of a source");
	has_str("b.bin: its tokens are I32 of 4 bytes", tarn_error_message(),
		"the sentence says which file has which tokens");
	corpus_datatrove(&c, 1000, 2000, in("a.ds"), 2);
	paths[2] = in("a.ds");
	must(tarn_data_source_open(paths, 3, NULL, &s));
	judge(s, &c, 2, "mixed");
	remove_all();
	corpus_free(&c);
	corpus_free(&none);
}

static void test_others(void)
{
	struct corpus c = corpus_new(2000, 50, 3), one = {.n = 1};
	struct tarn_data_source_info info;
	tarn_data_source *s;

	for (unsigned width = 1; width <= 4; width++) {
		corpus_datatrove(&c, 0, c.n, in("a.ds"), width);
		judge(open_one("a.ds", 0), &c, width, "datatrove");
	}
	for (unsigned width = 1; width <= 4; width++) {
		corpus_raw(&c, 0, c.n, in("a.raw"), width);
		s = open_one("a.raw", width);
		tarn_data_source_info(s, &info);
		ok(info.n_documents == 1 && !info.has_documents &&
				same_tokens(s, 0, c.n_tokens, width),
			"raw tokens of %u bytes are one document", width);
		tarn_data_source_unref(s);
	}
	remove_all();
	corpus_free(&c);
	corpus_free(&one);
}

/* ---- tensors --------------------------------------------------------------------- */

static tarn_tensor *tensor_of(enum tarn_dtype dtype, const char *text)
{
	tarn_tensor *t;

	must(tarn_tensor_parse(dtype, text, &t));
	return t;
}

static void test_tensors(void)
{
	const char *path = in("a.safetensors:text"), *npy = in("a.npy");
	tarn_tensor *values = tensor_of(TARN_U16, "[5, 6, 7, 8, 9, 10, 11]");
	tarn_tensor *offsets = tensor_of(TARN_I64, "[1, 3, 3, 6]");
	tarn_tensor *narrow = tensor_of(TARN_I32, "[0, 7]");
	struct tarn_save_item item = {.name = "text", .tensor = values};
	uint64_t lengths[3], token, length;
	tarn_data_source *s;
	uint16_t tokens[5];

	must(tarn_data_source_tokens(values, offsets, &s));
	must(tarn_data_source_lengths(s, 0, 3, lengths));
	ok(lengths[0] == 2 && lengths[1] == 0 && lengths[2] == 3,
		"ragged rows are documents");
	must(tarn_data_source_document(s, 2, &token, &length));
	must(tarn_data_source_read(s, token, length, tokens));
	ok(token == 2 && length == 3 && tokens[0] == 8 && tokens[2] == 10,
		"a ragged row has its tokens");
	tarn_data_source_unref(s);
	must(tarn_data_source_tokens(values, narrow, &s));
	must(tarn_data_source_read(s, 0, 1, tokens));
	is_int(5, tokens[0], "offsets may have 4 bytes");
	tarn_data_source_unref(s);
	must(tarn_save(in("a.safetensors"), &item, 1, NULL, NULL));
	must(tarn_save(in("a.npy"), &item, 1, NULL, NULL));
	for (int i = 0; i < 2; i++) {
		must(tarn_data_source_open(i ? &npy : &path, 1, NULL, &s));
		must(tarn_data_source_read(s, 2, 5, tokens));
		ok(tokens[0] == 7 && tokens[4] == 11, "%s is a file of tokens",
			i ? "a .npy" : "a tensor of a safetensors file");
		tarn_data_source_unref(s);
	}
	tarn_tensor_unref(values);
	tarn_tensor_unref(offsets);
	tarn_tensor_unref(narrow);
	remove_all();
}

static void test_ragged_refused(void)
{
	static const char *const bad[] = {
		"[0, 8]", "[-1, 3]", "[3, 1]", "[0, 9, 7]"};
	static const char *const part[] = {"ends at token 8", "at token -1",
		"ends at token 1", "ends at token 9"};
	tarn_tensor *values = tensor_of(TARN_I32, "[5, 6, 7, 8, 9, 10, 11]");

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		tarn_tensor *offsets = tensor_of(TARN_I64, bad[i]);
		tarn_data_source *s = NULL;
		uint64_t lengths[2];
		int r = tarn_data_source_tokens(values, offsets, &s);

		/* What lies between the ends is seen when it is needed. */
		if (r >= 0)
			r = tarn_data_source_lengths(s, 0,
				(size_t)tarn_tensor_layout(offsets)->shape[0] -
					1,
				lengths);
		is_int(-EBADMSG, r, "offsets %s are wrong", bad[i]);
		has_str(part[i], tarn_error_message(),
			"the sentence says \"%s\"", part[i]);
		tarn_data_source_unref(s);
		tarn_tensor_unref(offsets);
	}
	tarn_tensor_unref(values);
}

/* ---- wrong files ------------------------------------------------------------------ */

static void poke(const char *name, off_t at, const void *bytes, size_t size)
{
	int fd = open(in(name), O_WRONLY | O_CLOEXEC);

	if (fd < 0 || pwrite(fd, bytes, size, at) != (ssize_t)size)
		bail("%s: %m", name);
	close(fd);
}

/* An index of 100 sequences, of which a few bytes are others. */
static void wrong(
	int wanted, const char *part, off_t at, const void *bytes, size_t size)
{
	struct corpus c = corpus_new(100, 60, 4);
	const char *path = in("a.idx");
	uint64_t lengths[100], token, length;
	tarn_data_source *s = NULL;
	int r;

	corpus_megatron(&c, 0, c.n, in("a"), 8);
	poke("a.idx", at, bytes, size);
	r = tarn_data_source_open(&path, 1, NULL, &s);
	if (r >= 0)
		r = tarn_data_source_lengths(s, 0, 100, lengths);
	if (r >= 0)
		r = tarn_data_source_document(s, 7, &token, &length);
	is_int(wanted, r, "an index is refused: %s", part);
	has_str(part, tarn_error_message(), "the sentence has \"%s\"", part);
	has_str("a.idx: ", tarn_error_message(), "it names the file");
	tarn_data_source_unref(s);
	remove_all();
	corpus_free(&c);
}

static void test_wrong(void)
{
	const uint64_t two = 2, many = UINT64_MAX / 12 + 3;
	const int32_t negative = -7, large = 1 << 30;
	const int64_t odd = 13, far = 1ll << 62, below = -2;

	wrong(-EBADMSG, "bytes 0 to 8", 3, "x", 1);
	wrong(-EBADMSG, "version 2 of a Megatron index", 9, &two, 8);
	wrong(-EBADMSG, "no code of a dtype", 17, "\x09", 1);
	wrong(-ENOTSUP, "F32, and tokens are integers", 17, "\x07", 1);
	wrong(-EBADMSG, "announce 2 sequences", 18, &two, 8);
	wrong(-EBADMSG, "sequences and 101 documents", 18, &many, 8);
	wrong(-EBADMSG, "and 2 documents", 26, &two, 8);
	wrong(-EBADMSG, "sequence 3 has -7 tokens (at byte 46)", 34 + 12,
		&negative, 4);
	wrong(-EBADMSG, "sequence 7 has the pointer", 34 + 28, &large, 4);
	wrong(-EBADMSG, "sequence 7 has the pointer 13 (at byte 490)", 434 + 56,
		&odd, 8);
	wrong(-EBADMSG, "sequence 7 has the pointer", 434 + 56, &far, 8);
	wrong(-EBADMSG, "the pointer -2", 434 + 56, &below, 8);
	wrong(-EBADMSG, "its last sequence ends at token", 434 + 99 * 8, &two,
		8);
}

static void refused(int wanted, const char *part, const char *name)
{
	const char *path = in(name);
	tarn_data_source *s;

	is_int(wanted, tarn_data_source_open(&path, 1, NULL, &s),
		"%s is refused", name);
	has_str(part, tarn_error_message(), "the sentence has \"%s\"", part);
}

static void test_refused(void)
{
	struct corpus c = corpus_new(100, 60, 5);

	corpus_megatron(&c, 0, c.n, in("a"), 8);
	corpus_datatrove(&c, 0, c.n, in("a.ds"), 4);
	corpus_write(in("a.bin"), "xyz", 3);
	refused(-EBADMSG, "not whole tokens of 2 bytes", "a.bin");
	corpus_write(in("a.bin"), "xyz.", 4);
	refused(-EBADMSG, "within the 4 bytes of tokens", "a.bin");
	corpus_write(in("a.idx"), "MMIDIDX", 7);
	refused(-EBADMSG, "it has 7 bytes", "a.idx");
	corpus_write(in("a.ds.index"), "1234567890", 10);
	refused(-EBADMSG, "not whole ends of documents", "a.ds");
	corpus_write(in("a.ds.index"), "\5\0\0\0\0\0\0\0", 8);
	refused(-EBADMSG, "which are no tokens of 1 to 8 bytes", "a.ds");
	unlink(in("a.bin"));
	refused(-ENOENT, "a.bin: ", "a");
	unlink(in("a.ds.index"));
	refused(-EINVAL, "the bytes of a token, 1 to 4", "a.ds");
	refused(-ENOENT, "nothing: ", "nothing");
	corpus_write(in("c.idx"), "", 0);
	if (mkdir(in("c.bin"), 0700) < 0)
		bail("mkdir: %m");
	refused(-EISDIR, "regular files", "c.idx");
	rmdir(in("c.bin"));
	remove_all();
	corpus_free(&c);
}

/* ---- files that change -------------------------------------------------------------- */

static void test_changes(void)
{
	struct corpus c = corpus_new(100, 60, 6);
	uint64_t lengths[100];
	uint16_t tokens[100];
	tarn_data_source *s;

	corpus_megatron(&c, 0, c.n, in("a"), 8);
	s = open_one("a", 0);
	must(tarn_data_source_read(s, 0, 100, tokens));
	if (truncate(in("a.bin"), 100) < 0)
		bail("truncate: %m");
	is_int(-ENODATA, tarn_data_source_read(s, 0, 100, tokens),
		"a file that has shrunk is an error");
	has_str("a.bin: file: it ends at byte 100", tarn_error_message(),
		"the sentence names file and byte");
	is_int(-ESTALE, tarn_data_source_read(s, 0, 10, tokens),
		"what is left of it is not read, either");
	poke("a.idx", 34, "\1\0\0\0", 4);
	if (truncate(in("a.idx"), 2000) < 0)
		bail("truncate: %m");
	is_int(-ESTALE, tarn_data_source_lengths(s, 0, 100, lengths),
		"an index that has changed is an error");
	tarn_data_source_unref(s);
	/* One that replaces it is another file. */
	corpus_megatron(&c, 0, c.n, in("a"), 8);
	s = open_one("a", 0);
	corpus_raw(&c, 50, 50, in("a.raw"), 2);
	if (rename(in("a.raw"), in("a.bin")) < 0)
		bail("rename: %m");
	ok(same_tokens(s, 0, 100, 2),
		"a source goes on with the file that it has opened");
	tarn_data_source_unref(s);
	remove_all();
	corpus_free(&c);
}

int main(void)
{
	snprintf(dir, sizeof(dir), "%s", test_tmpdir());
	test_megatron();
	test_several();
	test_others();
	test_tensors();
	test_ragged_refused();
	test_wrong();
	test_refused();
	test_changes();
	return done(6 * 5 + 5 + 2 + 5 + 4 * 5 + 4 + 5 + 8 + 13 * 3 + 9 * 2 + 5);
}
