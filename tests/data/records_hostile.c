/* SPDX-License-Identifier: MIT */
/*
 * Tar shards that are wrong or change are errors with their names; and an index
 * beside a shard that is stale or lies never leads to other bytes.
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
#include "tests/data/tars.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static char dir[256], shard[300], side[320];

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
	memset(t.at + t.n, 0, 100);
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
	s = records_open(shard, true);
	f = fopen(shard, "a");
	if (!f || fwrite("more", 1, 4, f) != 4 || fclose(f) == EOF)
		bail("%s: %m", shard);
	has_str("s.tar: ", records_text(s, 0),
		"a shard that grows is an error");
	has_str("changed", records_text(s, 0),
		"the sentence says that it changed");
	tarn_data_source_unref(s);
	write_one("second");
	s = records_open(shard, true);
	is_str("a txt=second", records_text(s, 0),
		"the index beside a shard is made again after a change");
	snprintf(other, sizeof(other), "%s/other", dir);
	tars_file(&t, "a.txt", "third");
	tars_write(&t, other);
	if (rename(other, shard) < 0)
		bail("rename: %m");
	is_str("a txt=second", records_text(s, 0),
		"a source goes on with the file that it has opened");
	tarn_data_source_unref(s);
	s = records_open(shard, true);
	is_str("a txt=third", records_text(s, 0), "the next has the new one");
	if (truncate(shard, 512) < 0)
		bail("truncate: %m");
	has_str("s.tar: ", records_text(s, 0),
		"one that has shrunk is an error");
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
	s = records_open(shard, true);
	tarn_data_source_unref(s);
	poke(index_at() + at, bytes, size);
	s = records_open(shard, true);
	has_str(part, records_text(s, 0), "an index whose byte %lld is another",
		(long long)at);
	is_str("b txt=3333 n=4444", records_text(s, 1),
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
	s = records_open(shard, true);
	is_str("a txt=text", records_text(s, 0),
		"where no index can be written, it is made in memory");
	tarn_data_source_unref(s);
	rmdir(side);
	corpus_write(side, "nonsense", 8);
	s = records_open(shard, true);
	is_str("a txt=text", records_text(s, 0),
		"one that is none is replaced");
	tarn_data_source_unref(s);
	unlink(side);
	unlink(shard);
}

int main(void)
{
	snprintf(dir, sizeof(dir), "%s", test_tmpdir());
	snprintf(shard, sizeof(shard), "%s/s.tar", dir);
	snprintf(side, sizeof(side), "%s.tarn-index", shard);
	test_wrong();
	test_mixed_formats();
	test_changes();
	test_lies();
	test_no_folder();
	return done(23 * 3 + 3 + 6 + 19 * 2 + 2);
}
