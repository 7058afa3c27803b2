/* SPDX-License-Identifier: MIT */
/* Tar files made by hand, right ones and wrong ones. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct tar_made {
	unsigned char *at;
	size_t n, room;
	size_t head; /* byte of the last head */
};

/* A head; and a member with its data. */
void tars_head(struct tar_made *t, char type, const char *name, uint64_t size);
void tars_add(struct tar_made *t, char type, const char *name, const void *data,
	size_t size);
void tars_file(struct tar_made *t, const char *name, const char *text);
/* One pax record before what follows. */
void tars_pax(struct tar_made *t, char type, const char *key, const char *value,
	size_t value_size);
/* Two blocks of zeros. */
void tars_end(struct tar_made *t);
/* Bytes of the last head become others, and its sum right. */
void tars_poke(struct tar_made *t, size_t at, const void *bytes, size_t size);
/* Writes it as a file, and forgets it. */
void tars_write(struct tar_made *t, const char *path);
