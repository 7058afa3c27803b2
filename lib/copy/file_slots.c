// SPDX-License-Identifier: MIT
/*
 * A small table, searched from the front. An unused entry stays until its room
 * is needed or the stream is idle (file_slots_trim), so that successive copies
 * find their file open. As long as it is in the table its storage is kept, so a
 * descriptor cannot come to mean another file.
 */
#include "lib/copy/file_slots.h"

#include <stdlib.h>

#include "base/fail.h"

struct file_slots {
	struct tarn_io *io;
	unsigned n;
	bool wanted;    /* a copy was told to wait, */
	bool came_free; /* and since then one was returned */
	struct entry {
		int fd, slot;
		unsigned refs;
		tarn_storage *storage;
	} entries[TARN_IO_FILES];
};

int file_slots_new(struct tarn_io *io, struct file_slots **ret)
{
	struct file_slots *f = malloc(sizeof(*f));

	if (!f)
		return tarn_fail(ENOMEM, "stream: out of memory");
	f->io = io;
	f->n = 0;
	f->wanted = f->came_free = false;
	*ret = f;
	return 0;
}

static void remove_entry(struct file_slots *f, unsigned i)
{
	struct entry e = f->entries[i];

	f->entries[i] = f->entries[--f->n];
	tarn_io_drop_file(f->io, e.slot);
	tarn_storage_unref(e.storage);
}

void file_slots_trim(struct file_slots *f)
{
	for (unsigned i = f->n; i-- > 0;)
		if (f->entries[i].refs == 0)
			remove_entry(f, i);
}

struct file_slots *file_slots_free(struct file_slots *f)
{
	if (!f)
		return NULL;
	while (f->n)
		remove_entry(f, f->n - 1);
	free(f);
	return NULL;
}

static struct entry *find_fd(struct file_slots *f, int fd)
{
	for (unsigned i = 0; i < f->n; i++)
		if (f->entries[i].fd == fd)
			return &f->entries[i];
	return NULL;
}

static unsigned in_use(const struct file_slots *f)
{
	unsigned n = 0;

	for (unsigned i = 0; i < f->n; i++)
		n += f->entries[i].refs > 0;
	return n;
}

/* Is there room for both, if all unused ones are closed? */
static bool fit(struct file_slots *f, int fd, int direct)
{
	const struct entry *e = find_fd(f, fd);
	unsigned n = in_use(f) + (!e || !e->refs);

	if (direct >= 0) {
		e = find_fd(f, direct);
		n += !e || !e->refs;
	}
	return n <= TARN_IO_FILES;
}

static int take_one(
	struct file_slots *f, tarn_storage *storage, int fd, int *slot)
{
	struct entry *e = find_fd(f, fd);
	int r;

	if (!e) {
		if (f->n == TARN_IO_FILES)
			file_slots_trim(f);
		r = tarn_io_add_file(f->io, fd);
		if (r < 0)
			return r;
		e = &f->entries[f->n++];
		*e = (struct entry) {
			.fd = fd,
			.slot = r,
			.storage = tarn_storage_ref(storage),
		};
	}
	e->refs++;
	*slot = e->slot;
	return 0;
}

int file_slots_take(struct file_slots *f, tarn_storage *storage, int fd,
	int direct, struct file_slot *slot)
{
	int r;

	if (slot->buffered >= 0)
		return 1;
	if (!fit(f, fd, direct)) {
		f->wanted = true;
		return 0;
	}
	r = take_one(f, storage, fd, &slot->buffered);
	if (r >= 0 && direct >= 0)
		r = take_one(f, storage, direct, &slot->direct);
	if (r < 0) {
		file_slots_drop(f, slot);
		return r;
	}
	return 1;
}

static void drop_one(struct file_slots *f, int *slot)
{
	for (unsigned i = 0; *slot >= 0 && i < f->n; i++)
		if (f->entries[i].slot == *slot && --f->entries[i].refs == 0)
			f->came_free |= f->wanted;
	*slot = -1;
}

void file_slots_drop(struct file_slots *f, struct file_slot *slot)
{
	drop_one(f, &slot->buffered);
	drop_one(f, &slot->direct);
}

bool file_slots_came_free(struct file_slots *f)
{
	bool free = f->came_free;

	if (free)
		f->wanted = f->came_free = false;
	return free;
}
