// SPDX-License-Identifier: MIT
/*
 * A small table, searched from the front. What nobody uses stays in it until
 * its room is wanted or the stream has nothing to do (file_slots_trim), so
 * that copies which follow each other find their file open. As long as it is
 * in the table its storage is kept, so a descriptor cannot come to mean
 * another file.
 */
#include "lib/copy/file_slots.h"

#include <stdlib.h>

#include "base/fail.h"

struct file_slots {
	struct tarn_io *io;
	unsigned n;
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

int file_slots_take(
	struct file_slots *f, tarn_storage *storage, int fd, int *slot)
{
	struct entry *e = f->entries;
	int r;

	if (*slot >= 0)
		return 1;
	for (; e < f->entries + f->n; e++)
		if (e->fd == fd) {
			e->refs++;
			*slot = e->slot;
			return 1;
		}
	if (f->n == TARN_IO_FILES)
		file_slots_trim(f);
	/* Whose requests are under way will give some back. */
	if (f->n == TARN_IO_FILES && tarn_io_pending(f->io))
		return 0;
	r = tarn_io_add_file(f->io, fd);
	if (r < 0)
		return r;
	*slot = r;
	f->entries[f->n++] = (struct entry) {
		.fd = fd,
		.slot = r,
		.refs = 1,
		.storage = tarn_storage_ref(storage),
	};
	return 1;
}

void file_slots_drop(struct file_slots *f, int *slot)
{
	for (unsigned i = 0; *slot >= 0 && i < f->n; i++)
		if (f->entries[i].slot == *slot)
			f->entries[i].refs--;
	*slot = -1;
}
