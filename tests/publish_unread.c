/* SPDX-License-Identifier: MIT */
/*
 * Publications of very many names, of one connection, that come to an end at
 * once: their answers are longer than what a client may leave unread otherwise,
 * and it has had no time to read. It was taken for one that does not read, and
 * dropped, and all that it had open with it. An end there is all the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/tarn.h>

#include "tests/raw_client.h"
#include "tests/tap.h"
#include "tests/witness.h"

enum {
	NAMES = 60000,
	ANSWER = NAMES * 8, /* bytes; a little more */
	TIMES = 12,         /* 5.5 MiB of them */
	ALL = 60,           /* 27 MiB */
};

static struct daemon server;
static struct witness witness;

/* One source of eight bytes, under all of the names. */
static size_t write_message(unsigned char *body)
{
	const struct msg_publish head = {.n_sources = 1, .n_names = NAMES};
	const struct msg_source source = {.kind = SOURCE_BYTES, .size = 8};
	const struct msg_name name = {
		.name_size = 8, .dtype = TARN_U8, .ndim = 1};
	const int64_t shape_and_stride[2] = {8, 1};
	unsigned char *at = body;
	char text[9];

	at = mempcpy(at, &head, sizeof(head));
	at = mempcpy(at, &source, sizeof(source));
	for (int i = 0; i < NAMES; i++) {
		snprintf(text, sizeof(text), "n%07d", i);
		at = mempcpy(at, &name, sizeof(name));
		at = mempcpy(at, shape_and_stride, sizeof(shape_and_stride));
		at = mempcpy(at, text, 8);
	}
	at = mempcpy(at, "12345678", 8);
	return (size_t)(at - body);
}

int main(void)
{
	unsigned char *body = malloc(NAMES * 64u);
	size_t size = write_message(body);
	int said = 0, answered = 0;
	struct raw raw;

	daemon_start(&server, "sock", NULL);
	witness_begin(&witness, &server);
	raw_open(&raw, server.socket);
	while (said < TIMES &&
		raw_say(&raw, WIRE_PUBLISH, body, size, NULL, 0) >= 0)
		said++;
	is_int(TIMES, said, "answers of %d bytes each are left unread", ANSWER);
	for (int i = 0; i < said; i++)
		answered += raw_hear(&raw, RAW_PATIENCE_MS) == WIRE_PUBLISHED;
	is_int(TIMES, answered, "each of them comes");
	witness_is_served(&witness, "one has much to read");

	/* Now never. The names stand; what it is told becomes short, then it is
	 * dropped. */
	for (said = 0; said < ALL; said++)
		if (raw_say(&raw, WIRE_PUBLISH, body, size, NULL, 0) < 0)
			break;
	for (answered = 0; answered < said; answered++)
		if (raw_hear(&raw, RAW_PATIENCE_MS) != WIRE_PUBLISHED)
			break;
	diag("%d were said, %d answered", said, answered);
	ok(answered < ALL, "there is an end to it");
	witness_is_served(&witness, "one reads nothing");
	raw_close(&raw);
	free(body);
	remove_files();
	tarn_tensor_unref(witness.tensor);
	tarn_store_unref(witness.store);
	is_int(0, daemon_stop(&server), "the daemon ends well");
	return done();
}
