/* SPDX-License-Identifier: MIT */
#include "tests/data/tars.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/tarn.h>

#include "tests/data/corpus.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static unsigned char *room_for(struct tar_made *t, size_t n)
{
	size_t whole = (n + 511) / 512 * 512;
	unsigned char *at;

	if (whole > t->room - t->n) {
		t->room = 2 * t->room + whole + 65536;
		t->at = realloc(t->at, t->room);
		if (!t->at)
			bail("out of memory");
	}
	at = t->at + t->n;
	memset(at, 0, whole);
	t->n += whole;
	return at;
}

static void sum(unsigned char *head)
{
	unsigned n = 0;

	memset(head + 148, ' ', 8);
	for (int i = 0; i < 512; i++)
		n += head[i];
	snprintf((char *)head + 148, 8, "%06o", n);
}

void tars_head(struct tar_made *t, char type, const char *name, uint64_t size)
{
	unsigned char *head;

	t->head = t->n;
	head = room_for(t, 512);
	memcpy(head, name, strnlen(name, 100));
	memcpy(head + 100, "0000644", 7);
	snprintf((char *)head + 124, 12, "%011llo",
		(unsigned long long)size & 077777777777);
	memcpy(head + 136, "00000000000", 11);
	head[156] = (unsigned char)type;
	memcpy(head + 257, "ustar\00000", 8);
	sum(head);
}

void tars_add(struct tar_made *t, char type, const char *name, const void *data,
	size_t size)
{
	tars_head(t, type, name, size);
	if (size)
		memcpy(room_for(t, size), data, size);
}

void tars_file(struct tar_made *t, const char *name, const char *text)
{
	tars_add(t, '0', name, text, strlen(text));
}

void tars_pax(struct tar_made *t, char type, const char *key, const char *value,
	size_t value_size)
{
	char text[9000];
	size_t n = strlen(key) + value_size + 3, digits = 1;
	int at;

	for (size_t m = n + digits; m >= 10; m /= 10)
		digits++;
	at = snprintf(text, sizeof(text), "%zu %s=", n + digits, key);
	memcpy(text + at, value, value_size);
	text[(size_t)at + value_size] = '\n';
	tars_add(t, type, "pax", text, (size_t)at + value_size + 1);
}

void tars_end(struct tar_made *t)
{
	room_for(t, 1024);
}

void tars_poke(struct tar_made *t, size_t at, const void *bytes, size_t size)
{
	memcpy(t->at + t->head + at, bytes, size);
	sum(t->at + t->head);
}

void tars_write(struct tar_made *t, const char *path)
{
	corpus_write(path, t->at, t->n);
	free(t->at);
	*t = (struct tar_made) {.n = 0};
}

/* ---- records ------------------------------------------------------------------- */

tarn_data_source *records_open(const char *shard, bool side_car)
{
	const struct tarn_data_source_options options = {.side_car = side_car};
	const char *path = shard;
	tarn_data_source *s;

	must(tarn_data_source_open(&path, 1, &options, &s));
	return s;
}

const char *records_text(const tarn_data_source *s, uint64_t i)
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

uint64_t records_count(const tarn_data_source *s)
{
	struct tarn_data_source_info info;

	tarn_data_source_info(s, &info);
	return info.n_records;
}
