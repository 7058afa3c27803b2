/* SPDX-License-Identifier: MIT */
/*
 * Records of tar shards and columns: members are grouped as WebDataset groups
 * them, names and sizes of all forms are read, what is wrong or changes is an
 * error with the shard's name, and an index beside a shard that is stale or lies
 * never leads to other bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/data/corpus.h"
#include "tests/data/tars.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static char dir[256], shard[300], side[320];

static tarn_data_source *open_shard(bool side_car)
{
	const struct tarn_data_source_options options = {.side_car = side_car};
	const char *path = shard;
	tarn_data_source *s;

	must(tarn_data_source_open(&path, 1, &options, &s));
	return s;
}

/* Record i as "KEY field=text ...", static until the next call. */
static const char *text_of(const tarn_data_source *s, uint64_t i)
{
	static char text[16384];
	tarn_data_record *record;
	size_t at;

	if (tarn_data_source_record(s, i, &record) < 0)
		return tarn_error_message();
	at = (size_t)snprintf(
		text, sizeof(text), "%s", tarn_data_record_key(record));
	for (size_t k = 0; k < tarn_data_record_count(record); k++) {
		const struct tarn_data_field *f =
			tarn_data_record_field(record, k);
		char value[1024] = "";

		if (tarn_data_record_read(record, k, value, sizeof(value) - 1) <
			0)
			snprintf(value, sizeof(value), "%s",
				tarn_error_message());
		at += (size_t)snprintf(
			text + at, sizeof(text) - at, " %s=%s", f->name, value);
	}
	tarn_data_record_free(record);
	return text;
}

static uint64_t count(const tarn_data_source *s)
{
	struct tarn_data_source_info info;

	tarn_data_source_info(s, &info);
	return info.n_records;
}

/* ---- what is there ------------------------------------------------------------ */

static void test_groups(void)
{
	static const char *const wanted[] = {
		"a/b jpg=picture cls=7 seg.png=mask", "a/c jpg=next",
		"a/b json={}", "up/../../x txt=far", "folder/ hidden=dot",
		"e ="};
	struct tar_made t = {.n = 0};
	tarn_data_source *s;

	tars_add(&t, '5', "a/", "", 0);
	tars_file(&t, "a/b.jpg", "picture");
	tars_add(&t, '2', "a/b.lnk", "", 0);
	tars_file(&t, "a/b.CLS", "7");
	tars_file(&t, "a/b.seg.PNG", "mask");
	tars_file(&t, "README", "no dot");
	tars_file(&t, "__meta__.json/x", "note");
	tars_file(&t, "__a.b__", "note");
	tars_file(&t, "a/c.jpg", "next");
	tars_file(&t, "a/b.json", "{}");
	tars_file(&t, "up/../../x.txt", "far");
	tars_file(&t, "folder/.hidden", "dot");
	tars_file(&t, ".hidden", "nothing before the dot");
	tars_file(&t, "e.", "");
	tars_end(&t);
	tars_write(&t, shard);
	s = open_shard(false);
	is_int(ARRAY_SIZE(wanted), (int64_t)count(s),
		"members of one key that follow each other are a record");
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		is_str(wanted[i], text_of(s, i), "record %zu", i);
	tarn_data_source_unref(s);
}

static void test_names(void)
{
	char name[3000];
	struct tar_made t = {.n = 0};
	tarn_data_source *s;

	memset(name, 'n', sizeof(name));
	memcpy(name + sizeof(name) - 5, ".txt", 5);
	tars_pax(&t, 'g', "comment", "for all", 7);
	tars_pax(&t, 'x', "path", "pax.txt", 7);
	tars_file(&t, "other.txt", "1");
	tars_add(&t, 'L', "././@LongLink", name, sizeof(name));
	tars_file(&t, "cut", "2");
	tars_file(&t, "file.txt", "3");
	tars_poke(&t, 345, "prefix/of", 9);
	tars_add(&t, 'K', "././@LongLink", name, sizeof(name));
	tars_file(&t, "link.txt", "4");
	tars_pax(&t, 'x', "size", "5", 1);
	tars_add(&t, '0', "size.txt", "5.55", 5);
	tars_poke(&t, 124, "00000000000", 11);
	tars_file(&t, "base.txt", "66");
	tars_poke(&t, 124, "\x80\0\0\0\0\0\0\0\0\0\0\2", 12);
	tars_add(&t, '\0', "old.txt", "7", 1);
	tars_poke(&t, 257, "\0\0\0\0\0\0\0\0", 8);
	tars_end(&t);
	tars_write(&t, shard);
	s = open_shard(false);
	is_int(7, (int64_t)count(s), "names and sizes of all forms");
	is_str("pax txt=1", text_of(s, 0), "a name of pax");
	ok(strlen(text_of(s, 1)) == sizeof(name) - 5 + 6 &&
			strstr(text_of(s, 1), "n txt=2"),
		"a long name of GNU's");
	is_str("prefix/of/file txt=3", text_of(s, 2), "a name in two parts");
	is_str("link txt=4", text_of(s, 3), "the name of a link is skipped");
	is_str("size txt=5.55", text_of(s, 4), "a size of pax");
	is_str("base txt=66", text_of(s, 5), "a size in base 256");
	is_str("old txt=7", text_of(s, 6), "a head of before POSIX");
	tarn_data_source_unref(s);
}

/* A member of 2^33 bytes, which are a hole of the file itself. */
static void test_large(void)
{
	struct tar_made t = {.n = 0};
	uint64_t large = (uint64_t)1 << 33;
	struct tar_made after = {.n = 0};
	tarn_data_record *record;
	tarn_data_source *s;
	int fd;

	tars_head(&t, '0', "large.bin", 0);
	tars_poke(&t, 124, "\x80\0\0\0\0\0\0\2\0\0\0\0", 12);
	tars_write(&t, shard);
	tars_file(&after, "next.txt", "behind");
	tars_end(&after);
	fd = open(shard, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || pwrite(fd, after.at, after.n, (off_t)(512 + large)) !=
			      (ssize_t)after.n) {
		skip(3, "no file of 8 GiB: %m");
	} else {
		s = open_shard(false);
		is_int(2, (int64_t)count(s), "a member of 2^33 bytes");
		must(tarn_data_source_record(s, 0, &record));
		is_int((int64_t)large,
			(int64_t)tarn_data_record_field(record, 0)->size,
			"has them");
		tarn_data_record_free(record);
		is_str("next txt=behind", text_of(s, 1), "the next is found");
		tarn_data_source_unref(s);
	}
	close(fd);
	free(after.at);
	unlink(shard);
}

/* ---- several shards ------------------------------------------------------------ */

static int count_calls(void *arg, uint64_t done, uint64_t total)
{
	uint64_t *seen = arg;

	seen[0]++;
	seen[1] = MAX(seen[1], done);
	seen[2] = total;
	return 0;
}

static int cancel(void *arg, uint64_t done, uint64_t total)
{
	(void)arg;
	(void)done;
	(void)total;
	return 1;
}

enum { SHARDS = 7 };

/* So few that not all shards can be open. */
static void few_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		bail("getrlimit: %m");
	limit.rlim_cur = 20;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		bail("setrlimit: %m");
}

static void write_shards(char paths[SHARDS][320])
{
	unsigned next = 0;

	for (int i = 0; i < SHARDS; i++) {
		struct tar_made t = {.n = 0};
		char name[64], text[64];

		/* One has no records. */
		for (int k = 0; i != 3 && k < 400 + i; k++, next++) {
			snprintf(name, sizeof(name), "%06u.txt", next);
			snprintf(text, sizeof(text), "text %u", next);
			tars_file(&t, name, text);
			snprintf(name, sizeof(name), "%06u.n", next);
			tars_file(&t, name, text + 5);
		}
		tars_end(&t);
		snprintf(paths[i], 320, "%s/part-%d.tar", dir, i);
		tars_write(&t, paths[i]);
	}
}

static bool all_are_right(const tarn_data_source *s, uint64_t n)
{
	char wanted[128];

	for (uint64_t i = 0; i < n; i++) {
		/* Back and forth, so that shards are closed and opened again. */
		uint64_t k = i * 997 % n;

		snprintf(wanted, sizeof(wanted), "%06u txt=text %u n=%u",
			(unsigned)k, (unsigned)k, (unsigned)k);
		if (strcmp(wanted, text_of(s, k)) != 0) {
			diag("%s", text_of(s, k));
			return false;
		}
	}
	return true;
}

static void test_shards(void)
{
	static char paths[SHARDS][320];
	const char *list[SHARDS];
	tarn_tensor *indexes[SHARDS];
	uint64_t seen[3] = {0}, n = 0;
	struct tarn_data_source_options options = {
		.threads = 3, .progress = count_calls, .arg = seen};
	struct tarn_data_source_info info;
	struct stat st;
	tarn_data_source *s;
	char index[2400];
	int there = 0;

	write_shards(paths);
	for (int i = 0; i < SHARDS; i++) {
		list[i] = paths[i];
		n += i == 3 ? 0 : 400 + (uint64_t)i;
	}
	must(tarn_data_source_open(list, SHARDS, &options, &s));
	tarn_data_source_info(s, &info);
	ok(info.n_files == SHARDS && info.n_records == n &&
			!strcmp(info.format, "tar"),
		"%d shards have %llu records", SHARDS,
		(unsigned long long)info.n_records);
	ok(seen[0] > 0 && seen[1] <= seen[2] && seen[2] > 0,
		"progress is told: %llu of %llu bytes",
		(unsigned long long)seen[1], (unsigned long long)seen[2]);
	ok(all_are_right(s, n), "each record is what was written");
	for (size_t i = 0; i < SHARDS; i++)
		must(tarn_data_source_index(s, i, &indexes[i]));
	is_int(-ERANGE, tarn_data_source_index(s, SHARDS, &indexes[0]),
		"there are no more indexes");
	tarn_data_source_unref(s);
	options = (struct tarn_data_source_options) {.indexes = indexes};
	must(tarn_data_source_open(list, SHARDS, &options, &s));
	ok(all_are_right(s, n), "indexes that are given are used");
	tarn_data_source_unref(s);
	options = (struct tarn_data_source_options) {.indexes = indexes + 1};
	is_int(-EMEDIUMTYPE,
		tarn_data_source_open(list, SHARDS - 1, &options, &s),
		"those of other shards are refused");
	for (size_t i = 0; i < SHARDS; i++)
		tarn_tensor_unref(indexes[i]);
	options = (struct tarn_data_source_options) {.side_car = true};
	few_files();
	for (int k = 0; k < 2; k++) {
		must(tarn_data_source_open(list, SHARDS, &options, &s));
		ok(all_are_right(s, n), "%s",
			k ? "indexes beside shards are used"
			  : "indexes are kept beside shards");
		tarn_data_source_unref(s);
	}
	for (int i = 0; i < SHARDS; i++) {
		snprintf(index, sizeof(index), "%s.tarn-index", paths[i]);
		there += stat(index, &st) == 0;
		unlink(index);
	}
	is_int(SHARDS, there, "each shard has one beside it");
	options = (struct tarn_data_source_options) {.progress = cancel};
	is_int(-ECANCELED, tarn_data_source_open(list, SHARDS, &options, &s),
		"it can be cancelled");
	for (int i = 0; i < SHARDS; i++)
		unlink(paths[i]);
}

/* ---- what is wrong --------------------------------------------------------------- */

static void refused(int wanted, const char *part, struct tar_made *t)
{
	const char *path = shard;
	tarn_data_source *s;

	tars_write(t, shard);
	is_int(wanted, tarn_data_source_open(&path, 1, NULL, &s),
		"a shard is refused: %s", part);
	has_str(part, tarn_error_message(), "the sentence says \"%s\"", part);
	has_str("s.tar: ", tarn_error_message(), "it names the shard");
}

static void test_wrong(void)
{
	struct tar_made t = {.n = 0};

	refused(-EBADMSG, "the file ends at byte 0", &t);
	tars_file(&t, "a.txt", "text");
	t.at[3] ^= 1;
	refused(-EBADMSG, "byte 0 is no head of a member", &t);
	tars_file(&t, "a.txt", "text");
	tars_file(&t, "a.n", "text");
	t.n -= 512;
	refused(-EBADMSG, "the file ends at byte 1536", &t);
	tars_file(&t, "a.txt", "text");
	t.n += 100;
	refused(-EBADMSG, "the file ends at byte 1124", &t);
	tars_file(&t, "a.txt", "text");
	tars_poke(&t, 124, "00000100000", 11);
	refused(-EBADMSG, "needs 32768 bytes", &t);
	tars_file(&t, "a.txt", "text");
	tars_poke(&t, 124, "\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", 12);
	refused(-EBADMSG, "needs 9223372036854775807 bytes", &t);
	tars_file(&t, "a.txt", "text");
	tars_poke(&t, 124, "\x80\1\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", 12);
	refused(-EBADMSG, "no size below 2^63", &t);
	tars_file(&t, "a.txt", "text");
	tars_poke(&t, 124, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		12);
	refused(-EBADMSG, "no size below 2^63", &t);
	tars_file(&t, "a.txt", "text");
	tars_poke(&t, 124, "12x45", 5);
	refused(-EBADMSG, "no size below 2^63", &t);
	tars_file(&t, "a.txt", "text");
	tars_file(&t, "a.TXT", "twice");
	refused(-EBADMSG, "comes twice in one record", &t);
	tars_add(&t, 'S', "a.txt", "text", 4);
	refused(-ENOTSUP, "has holes", &t);
	tars_pax(&t, 'x', "GNU.sparse.major", "1", 1);
	tars_file(&t, "a.txt", "text");
	refused(-ENOTSUP, "has holes", &t);
	tars_pax(&t, 'g', "path", "a.txt", 5);
	refused(-ENOTSUP, "give all members one name", &t);
	for (int i = 0; i < 20; i++)
		tars_pax(&t, 'x', "comment", "again", 5);
	refused(-EBADMSG, "more than 16 heads", &t);
	tars_pax(&t, 'x', "path", "a\0b.txt", 7);
	refused(-EBADMSG, "or a zero among them", &t);
	tars_pax(&t, 'x', "path", "", 0);
	refused(-EBADMSG, "has 0 bytes", &t);
	tars_pax(&t, 'x', "size", "99999999999999999999", 20);
	refused(-EBADMSG, "no number below 2^63", &t);
	tars_pax(&t, 'x', "size", "9223372036854775807", 19);
	tars_file(&t, "a.txt", "text");
	refused(-EBADMSG, "needs 9223372036854775807 bytes", &t);
	tars_add(&t, 'x', "pax", "99 path=a.txt\n", 14);
	refused(-EBADMSG, "is no pax record", &t);
	tars_add(&t, 'x', "pax", "3 a=b\n", 6);
	refused(-EBADMSG, "is no pax record", &t);
	tars_head(&t, 'x', "pax", 1 << 21);
	refused(-EBADMSG, "announces 2097152 bytes", &t);
	tars_add(&t, 'L', "long", "", 0);
	refused(-EBADMSG, "a name has 1 to 4096", &t);
	tars_pax(&t, 'x', "path", "a.txt", 5);
	tars_end(&t);
	refused(-EBADMSG, "no head of a member", &t);
	unlink(shard);
}

static void test_mixed_formats(void)
{
	struct tar_made t = {.n = 0};
	const struct tarn_data_source_options bytes = {.token_bytes = 1};
	const char *paths[2] = {shard, dir};
	tarn_data_source *s;

	tars_file(&t, "a.txt", "text");
	tars_write(&t, shard);
	is_int(-EINVAL, tarn_data_source_open(paths, 2, NULL, &s),
		"a tar file and another are no source");
	has_str("it is no tar file", tarn_error_message(),
		"the sentence says which is none");
	corpus_write(side, "tokens", 6);
	paths[0] = side;
	paths[1] = shard;
	is_int(-EINVAL, tarn_data_source_open(paths, 2, &bytes, &s),
		"in no order");
	unlink(shard);
	unlink(side);
}

/* ---- what changes ------------------------------------------------------------------ */

static void write_one(const char *text)
{
	struct tar_made t = {.n = 0};

	tars_file(&t, "a.txt", text);
	tars_end(&t);
	tars_write(&t, shard);
}

static void test_changes(void)
{
	struct tar_made t = {.n = 0};
	tarn_data_source *s;
	char other[320];
	FILE *f;

	write_one("first");
	s = open_shard(true);
	f = fopen(shard, "a");
	if (!f || fwrite("more", 1, 4, f) != 4 || fclose(f) == EOF)
		bail("%s: %m", shard);
	has_str("s.tar: ", text_of(s, 0), "a shard that grows is an error");
	has_str("changed", text_of(s, 0), "the sentence says that it changed");
	tarn_data_source_unref(s);
	write_one("second");
	s = open_shard(true);
	is_str("a txt=second", text_of(s, 0),
		"the index beside a shard is made again after a change");
	snprintf(other, sizeof(other), "%s/other", dir);
	tars_file(&t, "a.txt", "third");
	tars_write(&t, other);
	if (rename(other, shard) < 0)
		bail("rename: %m");
	is_str("a txt=second", text_of(s, 0),
		"a source goes on with the file that it has opened");
	tarn_data_source_unref(s);
	s = open_shard(true);
	is_str("a txt=third", text_of(s, 0), "the next has the new one");
	if (truncate(shard, 512) < 0)
		bail("truncate: %m");
	has_str("s.tar: ", text_of(s, 0), "one that has shrunk is an error");
	tarn_data_source_unref(s);
	unlink(shard);
	unlink(side);
}

/* ---- indexes that lie --------------------------------------------------------------- */

static void poke(off_t at, const void *bytes, size_t size)
{
	int fd = open(side, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || pwrite(fd, bytes, size, at) != (ssize_t)size)
		bail("%s: %m", side);
	close(fd);
}

/* Where the index begins in its file. */
static off_t index_at(void)
{
	struct stat st;

	/* head 64, three entries of 16, four of 24, "a" "txt" "n" "b". */
	return stat(side, &st) < 0 ? -1 : st.st_size - (64 + 48 + 96 + 6);
}

static void lies(const char *part, off_t at, const void *bytes, size_t size)
{
	struct tar_made t = {.n = 0};
	tarn_data_source *s;

	unlink(side);
	tars_file(&t, "a.txt", "1111");
	tars_file(&t, "a.n", "2222");
	tars_file(&t, "b.txt", "3333");
	tars_file(&t, "b.n", "4444");
	tars_end(&t);
	tars_write(&t, shard);
	s = open_shard(true);
	tarn_data_source_unref(s);
	poke(index_at() + at, bytes, size);
	s = open_shard(true);
	has_str(part, text_of(s, 0), "an index whose byte %lld is another",
		(long long)at);
	is_str("b txt=3333 n=4444", text_of(s, 1),
		"other records are what they were");
	tarn_data_source_unref(s);
	unlink(side);
	unlink(shard);
}

static void test_lies(void)
{
	const uint64_t first = 0, second = 1024, odd = 1, far = 1ull << 40;
	const uint64_t five = 5, many = 77, none = 0;
	const uint32_t text = 1 << 20;
	const uint16_t heads = 2;

	/* Entries of records begin at 64, those of fields at 112. */
	lies("its index is wrong", 112 + 24, &first, 8);
	lies("its index is wrong", 112, &second, 8);
	lies("its index is wrong", 112, &odd, 8);
	lies("its index is wrong", 112, &far, 8);
	lies("its index is wrong", 112 + 8, &five, 8);
	lies("its index is wrong", 112 + 8, &far, 8);
	lies("its index is wrong", 112 + 16, &text, 4);
	lies("its index is wrong", 112 + 22, &heads, 2);
	lies("its index is wrong", 112 + 22, &none, 2);
	lies("its index is wrong", 64, &many, 8);
	lies("its index is wrong", 64 + 8, &text, 4);
	lies("its index is wrong", 64 + 8, &odd, 4);
	lies("its index is wrong", 112 + 96, "c", 1);
	/* What the head says is seen at once, and the index made again. */
	lies("a txt=1111 n=2222", 0, &many, 8);
	lies("a txt=1111 n=2222", 8, &many, 8);
	lies("a txt=1111 n=2222", 16, &many, 8);
	lies("a txt=1111 n=2222", 24, &many, 8);
	lies("a txt=1111 n=2222", 32, &far, 8);
	lies("a txt=1111 n=2222", 40, &far, 8);
}

static void test_no_folder(void)
{
	tarn_data_source *s;

	write_one("text");
	if (mkdir(side, 0700) < 0)
		bail("mkdir: %m");
	s = open_shard(true);
	is_str("a txt=text", text_of(s, 0),
		"where no index can be written, it is made in memory");
	tarn_data_source_unref(s);
	rmdir(side);
	corpus_write(side, "nonsense", 8);
	s = open_shard(true);
	is_str("a txt=text", text_of(s, 0), "one that is none is replaced");
	tarn_data_source_unref(s);
	unlink(side);
	unlink(shard);
}

/* ---- columns -------------------------------------------------------------------------- */

static tarn_tensor *tensor_of(enum tarn_dtype dtype, const char *text)
{
	tarn_tensor *t;

	must(tarn_tensor_parse(dtype, text, &t));
	return t;
}

static tarn_data_source *some_columns(void)
{
	tarn_tensor *rows = tensor_of(TARN_F32, "[[1, 2], [3, 4]]");
	tarn_tensor *labels = tensor_of(TARN_I64, "[7, 8]");
	tarn_tensor *tokens = tensor_of(TARN_U16, "[10, 11, 12, 13]");
	tarn_tensor *boxes =
		tensor_of(TARN_F64, "[[1, 1], [2, 2], [3, 3], [4, 4]]");
	tarn_tensor *offsets = tensor_of(TARN_I32, "[0, 1, 4]");
	struct tarn_data_column columns[] = {{.name = "image"},
		{.name = "label"}, {.name = "text"}, {.name = "boxes"},
		{.name = "tar"}};
	struct tar_made t = {.n = 0};
	tarn_data_source *s;

	tars_file(&t, "a.txt", "one");
	tars_file(&t, "b.txt", "two");
	tars_write(&t, shard);
	must(tarn_data_source_rows(rows, &columns[0].source));
	must(tarn_data_source_rows(labels, &columns[1].source));
	must(tarn_data_source_tokens(tokens, offsets, &columns[2].source));
	must(tarn_data_source_ragged(boxes, offsets, &columns[3].source));
	columns[4].source = open_shard(false);
	must(tarn_data_source_columns(columns, ARRAY_SIZE(columns), &s));
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		tarn_data_source_unref(columns[i].source);
	tarn_tensor_unref(rows);
	tarn_tensor_unref(labels);
	tarn_tensor_unref(tokens);
	tarn_tensor_unref(boxes);
	tarn_tensor_unref(offsets);
	return s;
}

static bool field_is(const tarn_data_record *record, const char *name,
	enum tarn_dtype dtype, const char *text)
{
	tarn_tensor *seen, *wanted = tensor_of(dtype, text);
	const struct tarn_data_field *f;
	char bytes[256];
	bool same;
	size_t i;

	must(tarn_data_record_find(record, name, &i));
	f = tarn_data_record_field(record, i);
	must(tarn_data_record_tensor(record, i, &seen));
	must(tarn_data_record_read(record, i, bytes, sizeof(bytes)));
	same = tarn_tensor_equal(seen, wanted) == 1 &&
	       !memcmp(bytes, tarn_tensor_data(wanted), f->size) &&
	       f->dtype == dtype && f->ndim == tarn_tensor_layout(wanted)->ndim;
	tarn_tensor_unref(seen);
	tarn_tensor_unref(wanted);
	return same;
}

static void test_columns(void)
{
	tarn_data_source *s = some_columns();
	tarn_data_record *record;
	char small[4];
	size_t i;

	is_int(2, (int64_t)count(s), "columns have as many records as each");
	must(tarn_data_source_record(s, 1, &record));
	is_str("b", tarn_data_record_key(record), "a shard gives the key");
	ok(field_is(record, "image", TARN_F32, "[3, 4]"), "a row is a field");
	ok(field_is(record, "label", TARN_I64, "8"), "a number is a field");
	ok(field_is(record, "text", TARN_U16, "[11, 12, 13]"),
		"a document is a field");
	ok(field_is(record, "boxes", TARN_F64, "[[2, 2], [3, 3], [4, 4]]"),
		"a ragged row is a field");
	ok(field_is(record, "tar.txt", TARN_U8, "[116, 119, 111]"),
		"a member of a shard is a field");
	is_int(-ENOENT, tarn_data_record_find(record, "txt", &i),
		"a field that is not there");
	has_str("it has image, label, text, boxes, tar.txt",
		tarn_error_message(), "the sentence lists those that are");
	is_int(-ENOBUFS, tarn_data_record_read(record, 0, small, 4),
		"a field needs room");
	is_int(-ERANGE, tarn_data_record_read(record, 5, small, 4),
		"there is no sixth field");
	ok(!tarn_data_record_field(record, 5),
		"a sixth field has no description");
	tarn_data_source_unref(s);
	ok(field_is(record, "label", TARN_I64, "8"),
		"a record keeps its source");
	tarn_data_record_free(record);
	unlink(shard);
}

static void test_columns_refused(void)
{
	tarn_tensor *two = tensor_of(TARN_I64, "[7, 8]");
	tarn_tensor *three = tensor_of(TARN_I64, "[0, 1, 2]");
	tarn_tensor *scalar = tensor_of(TARN_I64, "3");
	struct tarn_data_column columns[2] = {{.name = "a"}, {.name = "b"}};
	tarn_data_source *s, *rows;
	tarn_data_record *record;

	must(tarn_data_source_rows(two, &columns[0].source));
	must(tarn_data_source_rows(three, &columns[1].source));
	is_int(-EINVAL, tarn_data_source_columns(columns, 2, &s),
		"columns of other lengths are refused");
	has_str("'b' has 3 samples, and 'a' has 2", tarn_error_message(),
		"the sentence has both");
	rows = columns[1].source;
	columns[1] = columns[0];
	is_int(-EINVAL, tarn_data_source_columns(columns, 2, &s),
		"so is a name that comes twice");
	is_int(-EINVAL, tarn_data_source_columns(columns, 0, &s),
		"and no columns at all");
	is_int(-EINVAL, tarn_data_source_record(rows, 0, &record),
		"rows alone are no records");
	is_int(-EINVAL, tarn_data_source_ragged(scalar, three, &s),
		"ragged values have a dimension");
	is_int(-EBADMSG, tarn_data_source_ragged(three, two, &s),
		"offsets lead outside of them");
	tarn_data_source_unref(columns[0].source);
	tarn_data_source_unref(rows);
	tarn_tensor_unref(two);
	tarn_tensor_unref(three);
	tarn_tensor_unref(scalar);
}

/* ---- datasets ------------------------------------------------------------------------ */

static void test_dataset(void)
{
	const double weights[] = {3, 1};
	const struct tarn_data_weights periods = {.weights = weights};
	struct tarn_data_options options = {.seed = 5,
		.windows = TARN_WINDOWS_RECORDS,
		.periods = &periods,
		.n_periods = 1};
	const struct tarn_data_request request = {.size = 0};
	tarn_data_source *sources[2] = {some_columns(), NULL};
	unsigned counts[2] = {0}, seen[2][2] = {{0}};
	struct tarn_data_sample sample;
	tarn_data *data, *again;
	uint64_t g = 0;
	char *state;
	int r = 0;

	sources[1] = open_shard(false);
	must(tarn_data_open(sources, 2, &options, &data));
	for (uint64_t i = 0; r >= 0 && i < 400; i++) {
		r = tarn_data_get(data, i, &request, &sample);
		counts[sample.source]++;
		seen[sample.source][sample.sample & 1]++;
	}
	ok(r >= 0 && counts[0] == 300 && counts[1] == 100 &&
			seen[0][0] == 150 && seen[1][1] == 50,
		"records are mixed and shuffled: %u, %u", counts[0], counts[1]);
	must(tarn_data_state(data, 17, &state));
	has_str("windows=records", state, "a state says that they are records");
	must(tarn_data_open(sources, 2, &options, &again));
	must(tarn_data_resume(again, state, &g));
	is_int(17, (int64_t)g, "it is resumed");
	tarn_data_free(again);
	options.windows = TARN_WINDOWS_ROWS;
	is_int(-EINVAL, tarn_data_open(sources, 2, &options, &again),
		"records are no rows");
	options.windows = TARN_WINDOWS_RECORDS;
	options.seq_len = 4;
	is_int(-EINVAL, tarn_data_open(sources, 2, &options, &again),
		"and have no length");
	tarn_data_free(data);
	tarn_data_source_unref(sources[0]);
	tarn_data_source_unref(sources[1]);
	free(state);
	unlink(shard);
}

int main(void)
{
	snprintf(dir, sizeof(dir), "%s", test_tmpdir());
	snprintf(shard, sizeof(shard), "%s/s.tar", dir);
	snprintf(side, sizeof(side), "%s.tarn-index", shard);
	test_groups();
	test_names();
	test_large();
	test_shards();
	test_wrong();
	test_mixed_formats();
	test_changes();
	test_lies();
	test_no_folder();
	test_columns();
	test_columns_refused();
	test_dataset();
	return done(7 + 8 + 3 + 10 + 23 * 3 + 3 + 6 + 19 * 2 + 2 + 13 + 7 + 5);
}
