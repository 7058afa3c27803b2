/* SPDX-License-Identifier: MIT */
/*
 * Records of tar shards: members are grouped as WebDataset groups them, names and
 * sizes of all forms are read, several shards are one source, and indexes are
 * given, kept, used and made by several processes at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "tests/data/corpus.h"
#include "tests/data/tars.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static char dir[256], shard[300], side[320];

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
	s = records_open(shard, false);
	is_int(ARRAY_SIZE(wanted), (int64_t)records_count(s),
		"members of one key that follow each other are a record");
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		is_str(wanted[i], records_text(s, i), "record %zu", i);
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
	s = records_open(shard, false);
	is_int(7, (int64_t)records_count(s), "names and sizes of all forms");
	is_str("pax txt=1", records_text(s, 0), "a name of pax");
	ok(strlen(records_text(s, 1)) == sizeof(name) - 5 + 6 &&
			strstr(records_text(s, 1), "n txt=2"),
		"a long name of GNU's");
	is_str("prefix/of/file txt=3", records_text(s, 2),
		"a name in two parts");
	is_str("link txt=4", records_text(s, 3),
		"the name of a link is skipped");
	is_str("size txt=5.55", records_text(s, 4), "a size of pax");
	is_str("base txt=66", records_text(s, 5), "a size in base 256");
	is_str("old txt=7", records_text(s, 6), "a head of before POSIX");
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
		s = records_open(shard, false);
		is_int(2, (int64_t)records_count(s), "a member of 2^33 bytes");
		must(tarn_data_source_record(s, 0, &record));
		is_int((int64_t)large,
			(int64_t)tarn_data_record_field(record, 0)->size,
			"has them");
		tarn_data_record_free(record);
		is_str("next txt=behind", records_text(s, 1),
			"the next is found");
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
		if (strcmp(wanted, records_text(s, k)) != 0) {
			diag("%s", records_text(s, k));
			return false;
		}
	}
	return true;
}

struct reading {
	const tarn_data_source *source;
	uint64_t n, step;
	pthread_t thread;
	bool good;
};

/* Number i is in the key and the second field of record i. */
static bool read_one(const tarn_data_source *s, uint64_t i)
{
	tarn_data_record *record;
	char text[64] = "";
	bool good;

	if (tarn_data_source_record(s, i, &record) < 0)
		return false;
	good = tarn_data_record_read(record, 1, text, sizeof(text) - 1) >= 0 &&
	       strtoull(text, NULL, 10) == i &&
	       strtoull(tarn_data_record_key(record), NULL, 10) == i;
	tarn_data_record_free(record);
	return good;
}

static void *read_some(void *arg)
{
	struct reading *r = arg;

	r->good = true;
	for (uint64_t i = 0; r->good && i < 2000; i++)
		r->good = read_one(r->source, i * r->step % r->n);
	return NULL;
}

/* AddressSanitizer's own locks are not prepared for a fork: a child of which a
 * thread of the parent had one in that moment waits for it, whatever it does. */
#ifdef __SANITIZE_ADDRESS__
enum { PATIENCE_S = 60, HANGS_MAX = 3 };
#else
enum { PATIENCE_S = 300, HANGS_MAX = 0 };
#endif

/* A child reads a record, while a thread that it does not have reads others. */
static bool child_reads(const tarn_data_source *s, uint64_t i)
{
	static int hangs;
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(PATIENCE_S);
		_exit(!read_one(s, i));
	}
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		return ++hangs <= HANGS_MAX;
	return status == 0;
}

static void test_fork(const tarn_data_source *s, uint64_t n)
{
	struct reading r = {.source = s, .n = n, .step = 997};
	bool good = true;
	int i;

	if (pthread_create(&r.thread, NULL, read_some, &r) != 0)
		bail("no thread");
	for (i = 0; good && i < 300; i++) {
		good = child_reads(s, (uint64_t)i * 7919 % n);
		if (pthread_tryjoin_np(r.thread, NULL) == 0 &&
			pthread_create(&r.thread, NULL, read_some, &r) != 0)
			bail("no thread");
	}
	pthread_join(r.thread, NULL);
	if (!ok(good && r.good, "children read while a thread reads"))
		diag("after %d", i);
}

static void test_threads(const tarn_data_source *s, uint64_t n)
{
	struct reading readings[4];
	bool good = true;

	for (size_t i = 0; i < ARRAY_SIZE(readings); i++) {
		readings[i] = (struct reading) {
			.source = s, .n = n, .step = 997 + 401 * i};
		if (pthread_create(&readings[i].thread, NULL, read_some,
			    &readings[i]) != 0)
			bail("no thread");
	}
	for (size_t i = 0; i < ARRAY_SIZE(readings); i++) {
		pthread_join(readings[i].thread, NULL);
		good = good && readings[i].good;
	}
	ok(good, "threads read while shards are closed and opened again");
}

/* Indexes beside shards, made by the first and found by the second opening. */
static void test_beside(const char *const list[SHARDS], uint64_t n)
{
	const struct tarn_data_source_options options = {.side_car = true};
	tarn_data_source *s;
	char index[2400];
	struct stat st;
	int there = 0;

	few_files();
	for (int k = 0; k < 2; k++) {
		must(tarn_data_source_open(list, SHARDS, &options, &s));
		ok(all_are_right(s, n), "%s",
			k ? "indexes beside shards are used"
			  : "indexes are kept beside shards");
		if (k)
			test_threads(s, n);
		test_fork(s, n);
		tarn_data_source_unref(s);
	}
	for (int i = 0; i < SHARDS; i++) {
		snprintf(index, sizeof(index), "%s.tarn-index", list[i]);
		there += stat(index, &st) == 0;
		unlink(index);
	}
	is_int(SHARDS, there, "each shard has one beside it");
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
	tarn_data_source *s;

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
	test_beside(list, n);
	options = (struct tarn_data_source_options) {.progress = cancel};
	is_int(-ECANCELED, tarn_data_source_open(list, SHARDS, &options, &s),
		"it can be cancelled");
	for (int i = 0; i < SHARDS; i++)
		unlink(paths[i]);
}

static void write_one(const char *text)
{
	struct tar_made t = {.n = 0};

	tars_file(&t, "a.txt", text);
	tars_end(&t);
	tars_write(&t, shard);
}

/* Processes that make the index of one shard at the same time. */
static void test_crowd(void)
{
	enum { CROWD = 6 };
	int good = 0, status;
	pid_t pids[CROWD];

	write_one("crowd");
	for (int i = 0; i < CROWD; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			bail("fork: %m");
		if (pids[i] == 0) {
			bool same = true;

			for (int k = 0; same && k < 20; k++) {
				tarn_data_source *s = records_open(shard, true);

				same = !strcmp(
					"a txt=crowd", records_text(s, 0));
				tarn_data_source_unref(s);
				if (k % 5 == i)
					unlink(side);
			}
			_exit(!same);
		}
	}
	for (int i = 0; i < CROWD; i++)
		good += waitpid(pids[i], &status, 0) == pids[i] && status == 0;
	is_int(CROWD, good, "processes may make an index at the same time");
	unlink(side);
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
	test_crowd();
	test_shards();
	return done(7 + 8 + 3 + 1 + 13);
}
