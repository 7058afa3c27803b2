/* SPDX-License-Identifier: MIT */
/*
 * The power goes out during a save: what can be on the disk then?
 *
 * A save is written down, call by call, and cut after each of them. Of what was
 * done by then, the disk has: of the file's bytes, everything up to its last
 * sync, and of the rest any subset, in units of 512 bytes; of the folder's
 * changes, everything up to its own last sync, and of the rest any number, in
 * their order, as journals keep it. Each such disk is made into a file, and it
 * must be the old one or the new one, whole; after the save has returned, the
 * new one. Subsets are too many to try all: some are drawn, by a fixed seed,
 * beside none and all.
 *
 * The test would see it if a sync was missing: the same is tried with a list
 * without the one or the other, and then it must see it.
 */
#include "tests/kit/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fd.h"
#include "tests/kit/save_calls.h"
#include "tests/kit/tap.h"

enum { SECTOR = 512, DRAWS = 12, IMAGE_MAX = 1 << 20 };

struct image {
	unsigned char *bytes;
	uint64_t size;
};

static struct image old_file, new_file;

static struct image read_image(const char *path)
{
	struct image i = {malloc(IMAGE_MAX), 0};
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd_pread(fd, i.bytes, IMAGE_MAX, 0);

	if (n < 0)
		bail("%s: cannot be read", path);
	i.size = (uint64_t)n;
	return i;
}

static uint32_t random_next(void)
{
	static uint64_t state = 0x9e3779b97f4a7c15;

	state = state * 6364136223846793005 + 1442695040888963407;
	return (uint32_t)(state >> 33);
}

/* ---- a disk after a cut ---------------------------------------------- */

enum draw { NONE, ALL, SOME };

/* Of the unsynced bytes of one write, those that made it. */
static void put(struct image *disk, const struct done *d, enum draw draw)
{
	for (uint64_t at = 0; at < d->size;) {
		uint64_t n =
			MIN(SECTOR - (d->offset + at) % SECTOR, d->size - at);

		if (draw == ALL || (draw == SOME && random_next() & 1)) {
			memcpy(disk->bytes + d->offset + at, d->bytes + at, n);
			disk->size = MAX(disk->size, d->offset + at + n);
		}
		at += n;
	}
}

/* The new file's bytes, cut after n calls. */
static void make_file(
	struct image *disk, const struct done *list, size_t n, enum draw draw)
{
	size_t synced = 0;

	memset(disk->bytes, 0, IMAGE_MAX);
	disk->size = 0;
	for (size_t i = 0; i < n; i++)
		if (list[i].call == CALL_SYNC)
			synced = i;
	for (size_t i = 0; i < n; i++) {
		enum draw one = i < synced ? ALL : draw;

		if (list[i].call == CALL_WRITE)
			put(disk, &list[i], one);
		else if (list[i].call == CALL_ALLOCATE &&
			 (one == ALL || (one == SOME && random_next() & 1)))
			disk->size = MAX(disk->size, list[i].size);
	}
}

/* Does "f" lead to the new file after `changes` of the folder's changes? */
static bool leads_to_new(const struct done *list, size_t n, unsigned changes)
{
	bool yes = false;

	for (size_t i = 0; i < n && changes; i++) {
		if (list[i].call != CALL_LINK && list[i].call != CALL_RENAME)
			continue;
		changes--;
		yes = yes || !strcmp(list[i].to, "f");
	}
	return yes;
}

/* How many changes the folder has after n calls, at least and at most. */
static void count_changes(const struct done *list, size_t n,
	unsigned *ret_least, unsigned *ret_most)
{
	*ret_least = *ret_most = 0;
	for (size_t i = 0; i < n; i++) {
		if (list[i].call == CALL_LINK || list[i].call == CALL_RENAME)
			++*ret_most;
		if (list[i].call == CALL_SYNC_FOLDER)
			*ret_least = *ret_most;
	}
}

/* ---- what a reader finds --------------------------------------------- */

struct verdicts {
	unsigned disks, old_ones, new_ones, broken;
	unsigned late; /* old ones after the save had returned */
};

static bool is_image(const struct image *a, const struct image *b)
{
	return a->size == b->size && !memcmp(a->bytes, b->bytes, a->size);
}

/* The file as it is on the disk, opened and verified. */
static void judge(const struct image *disk, bool returned, struct verdicts *v)
{
	_cleanup_fd_ int fd =
		open(in("disk"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	tarn_file *file = NULL;
	bool good;

	if (fd < 0 || fd_write_all(fd, disk->bytes, disk->size) < 0)
		bail("%s: %m", in("disk"));
	good = tarn_file_open(in("disk"), &file) == 0 &&
	       tarn_file_verify(file, NULL, NULL) == 0;
	tarn_file_unref(file);
	v->disks++;
	if (good && is_image(disk, &new_file))
		v->new_ones++;
	else if (good && is_image(disk, &old_file))
		v->old_ones++;
	else
		v->broken++;
	if (returned && !is_image(disk, &new_file))
		v->late++;
}

static void cut_after(const struct done *list, size_t n, bool returned,
	struct image *disk, struct verdicts *v)
{
	unsigned least, most;

	count_changes(list, n, &least, &most);
	for (unsigned changes = least; changes <= most; changes++) {
		if (!leads_to_new(list, n, changes)) {
			judge(&old_file, returned, v);
			continue;
		}
		for (int i = 0; i < DRAWS; i++) {
			make_file(disk, list, n,
				i == 0   ? NONE
				: i == 1 ? ALL
					 : SOME);
			judge(disk, returned, v);
		}
	}
}

/* Cuts a save everywhere; without the calls of one kind, if there is one. */
static struct verdicts cut_all(const struct done *list, size_t n, int without)
{
	struct done *left = calloc(n + 1, sizeof(*left));
	struct image disk = {malloc(IMAGE_MAX), 0};
	struct verdicts v = {0};
	size_t m = 0;

	for (size_t i = 0; i < n; i++)
		if ((int)list[i].call != without)
			left[m++] = list[i];
	for (size_t i = 0; i <= m; i++)
		cut_after(left, i, i == m, &disk, &v);
	free(disk.bytes);
	free(left);
	return v;
}

static unsigned count_calls(const struct done *list, size_t n, enum call call)
{
	unsigned count = 0;

	for (size_t i = 0; i < n; i++)
		count += list[i].call == call;
	return count;
}

static void test(bool checksums, enum tarn_io_mode io_mode, const char *what)
{
	struct tarn_save_item first[] = {item_of("x", MADE(TARN_F32, 1, 5000)),
		item_of("y", MADE(TARN_U8, 2, 77))};
	struct tarn_save_item second[] = {
		item_of("x", MADE(TARN_F32, 3, 80000)),
		item_of("y", MADE(TARN_U8, 4, 1001)),
		item_of("z", MADE(TARN_I16, 5, 3))};
	struct tarn_save_options o = {
		.engine = "threads", .checksums = true, .io_mode = io_mode};
	const struct done *list;
	struct verdicts v;
	size_t n;

	if (tarn_save(in("f"), first, 2, &o, NULL) < 0)
		bail("%s", tarn_error_message());
	old_file = read_image(in("f"));
	o.checksums = checksums;
	calls_record();
	is_int(0, tarn_save(in("f"), second, 3, &o, NULL),
		"%s: a file is saved: %s", what, tarn_error_message());
	list = calls_recorded(&n);
	new_file = read_image(in("f"));
	ok(count_calls(list, n, CALL_WRITE) > 1,
		"%s: the file is written in more than one write", what);

	v = cut_all(list, n, -1);
	diag("%s: %u disks, %u with the old file, %u with the new one", what,
		v.disks, v.old_ones, v.new_ones);
	is_int(0, v.broken, "%s: no disk has half a file", what);
	ok(v.old_ones > 0 && v.new_ones > 0,
		"%s: some disks have the old file and some the new one", what);
	is_int(0, v.late,
		"%s: no disk has the old file after the save returned", what);

	v = cut_all(list, n, CALL_SYNC);
	ok(v.broken > 0,
		"%s: half files are found without the sync of the file", what);
	v = cut_all(list, n, CALL_SYNC_FOLDER);
	is_int(0, v.broken,
		"%s: no half files are found without the sync of the folder",
		what);
	ok(v.late > 0, "%s: old files are found without the sync of the folder",
		what);

	calls_forget();
	free(old_file.bytes);
	free(new_file.bytes);
	drop(first, 2);
	drop(second, 3);
	clear_folder();
}

int main(void)
{
	test(false, TARN_IO_AUTO, "plain");
	test(true, TARN_IO_AUTO, "with checksums");
	test(true, TARN_IO_BUFFERED, "buffered");
	return done(24);
}
