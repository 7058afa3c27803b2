/* SPDX-License-Identifier: MIT */
/*
 * Publications of very many names, on a connection whose client does not read:
 * their long answers wait for it, one after the other. The daemon does not
 * read that connection meanwhile, so that the answers take no more memory than
 * one of them; others are served; and when the client reads, all is done.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

enum {
	NAMES = 60000,
	ANSWER = NAMES * 8, /* bytes; a little more */
	TIMES = 12,
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

static struct raw raw;
static unsigned char *body;
static size_t size;
static atomic_int said;

/* It waits as long as its socket is full. */
static void *send_all(void *arg)
{
	while (said < TIMES &&
		raw_send(&raw, WIRE_PUBLISH, body, size, NULL, 0) >= 0)
		said++;
	return NULL;
}

int main(void)
{
	int answered = 0;
	pthread_t thread;

	body = malloc(NAMES * 64u);
	size = write_message(body);
	daemon_start(&server, "sock", NULL);
	witness_begin(&witness, &server);
	raw_open(&raw, server.socket);
	if (pthread_create(&thread, NULL, send_all, NULL) != 0)
		bail("no thread");
	while (!said)
		usleep(1000);
	witness_is_served(&witness, "one reads nothing");
	for (int i = 0; i < TIMES; i++)
		answered +=
			raw_receive(&raw, RAW_PATIENCE_MS) == WIRE_PUBLISHED;
	pthread_join(thread, NULL);
	is_int(TIMES, answered, "each answer of %d bytes arrives", ANSWER);
	witness_is_served(&witness, "one has read all");
	raw_close(&raw);
	free(body);
	remove_files();
	tarn_tensor_unref(witness.tensor);
	tarn_store_unref(witness.store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(4);
}
