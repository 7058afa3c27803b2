/* SPDX-License-Identifier: MIT */
/* Tar files made by hand, right ones and wrong ones. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarn/data.h>

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

/* A shard as a source; how many records it has; record i as "KEY field=text ...",
 * static until the next call, or the sentence of what went wrong. */
tarn_data_source *records_open(const char *shard, bool side_car);
uint64_t records_count(const tarn_data_source *s);
const char *records_text(const tarn_data_source *s, uint64_t i);
