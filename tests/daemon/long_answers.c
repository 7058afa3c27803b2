/* SPDX-License-Identifier: MIT */
/*
 * Long answers and hostile clients. One reads hundreds of them and keeps all
 * descriptors that came with them; others read none. A client keeps no memory
 * of the daemon, unread answers are charged to its user, and others are served
 * meanwhile.
 */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/kit/pool.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define NAMES 10000u /* whose versions are an answer of 80,000 bytes */
#define KEPT 200
#define HOARDERS 60
#define HOARDED 4      /* requests of each, more answers than a socket takes */
#define QUOTA_KIB 4096 /* a fifth of all answers */

static struct pool_kit kit;
static struct witness witness;

struct name {
	struct msg_name head;
	int64_t shape, stride;
	char name[8];
};

struct request {
	struct msg_publish head;
	struct msg_source source;
	struct name names[NAMES];
	unsigned char bytes[8];
};

static struct request request;

static void make_request(uint32_t n_names)
{
	memset(&request, 0, sizeof(request));
	request.head.n_sources = 1;
	request.head.n_names = n_names;
	request.source = (struct msg_source) {.kind = SOURCE_BYTES, .size = 8};
	for (uint32_t i = 0; i < n_names; i++) {
		struct name *name = &request.names[i];
		char text[9];

		name->head.name_size = 8;
		name->head.dtype = 5; /* U8 */
		name->head.ndim = 1;
		name->shape = 8;
		name->stride = 1;
		snprintf(text, sizeof(text), "many/%03x", i % 4096);
		memcpy(name->name, text, 8);
		name->name[4] = (char)('a' + i / 4096);
	}
}

/* The bytes of its source stand behind the names that it has. */
static size_t request_size(void)
{
	return offsetof(struct request, names) +
	       request.head.n_names * sizeof(struct name) + 8;
}

static void send_publish(struct raw *raw)
{
	if (raw_send(raw, WIRE_PUBLISH, &request, request_size(), NULL, 0) < 0)
		bail("a publication could not be sent");
}

/* Of what a process has on its heap. */
static long heap_kib(pid_t pid)
{
	char path[64], line[256];
	long kib = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "RssAnon: %ld", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib;
}

/* ---- one that reads ---------------------------------------------------- */

static struct {
	struct wire_header head;
	unsigned char body[WIRE_INLINE_MAX];
} datagram;

/* The body that one datagram brought; the descriptors that came with it, of
 * which none is closed, are counted. */
static size_t take_datagram(struct raw *raw, int *n_fds)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * 253)];
		struct cmsghdr align;
	} control;
	struct iovec iov = {&datagram, sizeof(datagram)};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	struct pollfd wait = {.fd = raw->fd, .events = POLLIN};
	ssize_t n = -1;

	if (poll(&wait, 1, RAW_PATIENCE_MS) == 1)
		n = recvmsg(raw->fd, &msg, MSG_CMSG_CLOEXEC);
	if (n < (ssize_t)sizeof(datagram.head))
		bail("no datagram of an answer: %m");
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c;
		c = CMSG_NXTHDR(&msg, c))
		if (c->cmsg_type == SCM_RIGHTS)
			*n_fds += (int)((c->cmsg_len - CMSG_LEN(0)) /
					sizeof(int));
	return (size_t)n - sizeof(datagram.head);
}

/* As a client that keeps whatever it gets: no receiver of the library's. */
static void test_kept_answers(void)
{
	int fine = 0, n_fds = 0;
	struct raw raw;

	raw_open(&raw, kit.daemon.socket);
	for (int i = 0; i < KEPT; i++) {
		size_t got = 0;

		send_publish(&raw);
		do
			got += take_datagram(&raw, &n_fds);
		while (datagram.head.flags & WIRE_PART &&
			got < datagram.head.size);
		fine += datagram.head.type == WIRE_PUBLISHED &&
			got == datagram.head.size && got > WIRE_INLINE_MAX;
	}
	is_int(KEPT, fine, "each of %d long answers comes through the socket",
		KEPT);
	is_int(0, n_fds,
		"long answers come without descriptors, so a client keeps no "
		"memory");
	witness_is_served(&witness, "after a client was sent long answers");
	raw_close(&raw);
}

/* ---- those that do not ------------------------------------------------- */

/* What a client that reads is told; it asks until it is refused or
 * accepted, while the server takes what the others have sent. */
static int until_answer(struct raw *raw, int wanted)
{
	double end = seconds() + 60;
	int type;

	do {
		send_publish(raw);
		type = raw_answer(raw);
	} while (type > 0 && type != wanted && seconds() < end);
	return type;
}

static void test_unread_answers(void)
{
	static struct raw hoarders[HOARDERS];
	pid_t pid = child_named(kit.daemon.pid, "tarn-server");
	long before = heap_kib(pid), after;
	struct raw raw;

	for (int i = 0; i < HOARDERS; i++) {
		raw_open(&hoarders[i], kit.daemon.socket);
		for (int n = 0; n < HOARDED; n++)
			send_publish(&hoarders[i]);
	}
	raw_open(&raw, kit.daemon.socket);
	is_int(WIRE_ERROR, until_answer(&raw, WIRE_ERROR),
		"a request is refused when unread answers fill the user's "
		"quota");
	is_int(EDQUOT, raw.error, "the refusal's error is EDQUOT");
	has_str("requests", raw.text, "the refusal names the quota");
	after = heap_kib(pid);
	diag("the server's heap: %ld KiB before, %ld KiB with %d clients "
	     "that do not read",
		before, after, HOARDERS);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(1, "a sanitizer keeps what was freed, or has a shadow of it");
#else
	ok(after - before < 2 * QUOTA_KIB,
		"the server's heap grows by less than twice the quota");
#endif
	witness_is_served(&witness, "while clients do not read long answers");
	for (int i = 0; i < HOARDERS; i++)
		raw_close(&hoarders[i]);
	is_int(WIRE_PUBLISHED, until_answer(&raw, WIRE_PUBLISHED),
		"another client is accepted when the others have ended");
	raw_close(&raw);
}

int main(void)
{
	char conf[128];

	snprintf(conf, sizeof(conf), "[quota %u]\nrequests = %uK\n", geteuid(),
		QUOTA_KIB);
	kit_pool_start(&kit, conf);
	witness_begin(&witness, &kit.daemon);
	make_request(NAMES);
	test_kept_answers();
	test_unread_answers();
	witness_is_served(&witness, "at the end");
	tarn_tensor_unref(witness.tensor);
	tarn_store_unref(witness.store);
	is_int(0, kit_pool_stop(&kit), "the daemon ends without an error");
	remove_files();
	return done(11);
}
