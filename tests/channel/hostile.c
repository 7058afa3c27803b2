/* SPDX-License-Identifier: MIT */
/*
 * Channels that are malformed, or whose memory a participant overwrites while
 * they are used, are refused with a sentence or left alone; an innocent client
 * is served all the while.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/report.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/store/store.h"
#include "shm/channel.h"
#include "shm/lease.h"
#include "tests/kit/publish_msg.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

static struct daemon server;
static struct witness witness;

static const struct channel_geometry usual = {
	.ring = {.mode = RING_QUEUE, .slots = 8, .slot_bytes = 4096},
	.tensors = 4,
};

/* ---- channels by hand ---------------------------------------------------- */

struct made {
	int fd;
	uint64_t size;
	unsigned char *at;
	struct channel_map map;
};

static void map_all(struct made *m)
{
	m->at = mmap(
		NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	if (m->at == MAP_FAILED)
		bail("mmap: %m");
}

static struct made make_of(const struct channel_geometry *g)
{
	struct made m = {
		.fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING)};

	if (m.fd < 0 || channel_size(g, &m.size) < 0 ||
		ftruncate(m.fd, (off_t)m.size) < 0 || fchmod(m.fd, 0600) < 0)
		bail("a memfd: %m");
	map_all(&m);
	if (channel_init(m.at, m.size, g) < 0 ||
		channel_attach(&m.map, m.at, m.size) < 0)
		bail("%s", tarn_fail_message());
	publish_msg_seal(m.fd, SOURCE_CHANNEL);
	return m;
}

static struct made make(void)
{
	return make_of(&usual);
}

static void drop(struct made *m)
{
	munmap(m->at, m->size);
	close(m->fd);
}

static int answer_to(const struct publish_msg *p, struct raw *raw)
{
	int type;

	raw_open(raw, server.socket);
	type = publish_msg_answer(p, raw);
	raw_close(raw);
	return type;
}

static void refused(const struct publish_msg *p, int error, const char *part,
	const char *what)
{
	struct raw raw;

	is_int(WIRE_ERROR, answer_to(p, &raw),
		"a request for a channel is refused: %s", what);
	is_int(error, raw.error, "the refused request has the expected error");
	has_str(part, raw.text, "the error contains the reason");
}

static void taken(const struct publish_msg *p, const char *what)
{
	struct raw raw;

	if (!is_int(WIRE_PUBLISHED, answer_to(p, &raw),
		    "a request is accepted: %s", what))
		diag("%s", raw.text);
}

static struct publish_msg publish_msg_with(
	const struct made *m, const char *name)
{
	return publish_msg_of(SOURCE_CHANNEL, m->size, m->fd, name);
}

/* ---- what is no channel ------------------------------------------------ */

static void test_messages(void)
{
	struct made m = make();
	struct publish_msg p = publish_msg_with(&m, "x");

	publish_msg_name(&p, "y", 0, 0, (int64_t)m.size, 1);
	refused(&p, EINVAL, "alone", "a channel of two names");
	p = publish_msg_with(&m, "x");
	publish_msg_source(&p, SOURCE_BYTES, 8);
	publish_msg_name(&p, "y", 1, 0, 8, 1);
	p.n_bytes = 8;
	refused(&p, EINVAL, "alone", "a channel of two sources");
	p = publish_msg_with(&m, "x");
	p.head.flags = PUBLISH_REPLACE;
	p.head.prefix_size = 1;
	p.prefix[0] = 'x';
	p.prefix_size = 8;
	refused(&p, EINVAL, "alone", "a channel with a prefix to replace");
	p = (struct publish_msg) {0};
	publish_msg_source(&p, SOURCE_CHANNEL, m.size);
	publish_msg_name(&p, "x", 0, 0, (int64_t)m.size - 1, 1);
	publish_msg_fd(&p, m.fd);
	refused(&p, EINVAL, "layout", "a memory a byte too short");
	p = (struct publish_msg) {0};
	publish_msg_source(&p, SOURCE_CHANNEL, m.size);
	publish_msg_name(&p, "x", 0, 4096, (int64_t)m.size - 4096, 1);
	publish_msg_fd(&p, m.fd);
	refused(&p, EINVAL, "layout", "a memory with another head");
	p = publish_msg_with(&m, "x");
	p.sources[0].size -= 4096;
	p.names_size = 0;
	p.head.n_names = 0;
	publish_msg_name(&p, "x", 0, 0, (int64_t)m.size - 4096, 1);
	refused(&p, EINVAL, "whole pages", "a memory of another size");
	drop(&m);
}

/* A client leases the storage of its channel and publishes it once more: each
 * name of a channel costs a look at its ring when it is taken. */
static void test_second_name(void)
{
	struct made m = make();
	struct publish_msg p = publish_msg_with(&m, "one");
	struct lease_page *page;
	struct raw raw;

	raw_open(&raw, server.socket);
	is_int(WIRE_PUBLISHED, publish_msg_answer(&p, &raw),
		"a channel is published under a first name");
	if (lease_map(raw.lease, &page) < 0)
		bail("%s", tarn_fail_message());
	page->used = 1;
	page->slots[0] = lease_word(
		raw.published.stored.index, raw.published.stored.generation);
	p = (struct publish_msg) {0};
	publish_msg_source(&p, SOURCE_EXISTING, m.size);
	publish_msg_name(&p, "two", 0, 0, (int64_t)m.size, 1);
	p.sources[0].index = raw.published.stored.index;
	p.sources[0].generation = raw.published.stored.generation;
	is_int(WIRE_ERROR, publish_msg_answer(&p, &raw),
		"a second name for a channel is refused");
	is_int(EINVAL, raw.error, "the refusal's error is EINVAL");
	has_str("one name", raw.text, "the refusal says why");
	page->slots[0] = 0;
	lease_unmap(page);
	raw_send(&raw, WIRE_REMOVE, "one", 3, NULL, 0);
	is_int(WIRE_DONE, raw_answer(&raw), "the first name can be removed");
	raw_close(&raw);
	drop(&m);
}

static void test_memory(void)
{
	struct made m = make();
	struct publish_msg p = publish_msg_with(&m, "x");
	int huge;

	m.at[0] ^= 1;
	refused(&p, EPROTO, "magic", "a memory that is no channel");
	m.at[0] ^= 1;
	m.at[CHANNEL_PAGE] ^= 1;
	refused(&p, EPROTO, "magic", "one without a ring");
	m.at[CHANNEL_PAGE] ^= 1;
	m.map.memory = NULL;
	((struct channel_head *)(void *)m.at)->slots = 1 << 16;
	refused(&p, EPROTO, "header", "one that says that it is larger");
	drop(&m);
	huge = memfd_create(
		"huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	if (huge < 0 || ftruncate(huge, 2 << 20) < 0 ||
		fchmod(huge, 0600) < 0) {
		skip(3, "there are no huge pages: %m");
	} else {
		publish_msg_seal(huge, SOURCE_CHANNEL);
		p = publish_msg_of(SOURCE_CHANNEL, 2 << 20, huge, "x");
		refused(&p, EINVAL, "HUGETLB", "a memory of huge pages");
	}
	if (huge >= 0)
		close(huge);
}

/* ---- names ------------------------------------------------------------- */

/* What the witness is called in rings: one who lives. */
static uint32_t ours(void)
{
	struct wire_message reply;
	struct msg_channel is;

	if (connection_call(&witness.store->connection, WIRE_CHANNEL, NULL, 0,
		    WIRE_CHANNEL_IS, sizeof(is), &reply) < 0)
		bail("%s", tarn_error_message());
	memcpy(&is, reply.body, sizeof(is));
	wire_message_clear(&reply);
	return is.owner;
}

static void test_names(void)
{
	struct made first = make(), second = make(), third = make();
	struct publish_msg p = publish_msg_with(&first, "c"), q;
	const struct ring_note note = {0};
	struct ring_item item;
	struct ring ring;
	uint32_t slot;

	p.head.flags = PUBLISH_NEW;
	taken(&p, "a new channel");
	q = publish_msg_with(&second, "c");
	q.head.flags = PUBLISH_NEW;
	refused(&q, EEXIST, "a channel \"c\" already, which is open",
		"another, where one is open");
	if (ring_attach(&ring, first.map.ring, first.map.ring_size) < 0 ||
		ring_join(&ring, RING_PRODUCER | RING_CONSUMER, ours()) < 0 ||
		ring_acquire(&ring, &slot) != 1 ||
		ring_publish(&ring, slot, &note) < 0 || ring_close(&ring) < 0)
		bail("%s", tarn_fail_message());
	refused(&q, EEXIST, "which is closed, 1 item not received",
		"another, where one is closed with an item in it");
	if (ring_receive(&ring, &item) != 1)
		bail("%s", tarn_fail_message());
	taken(&q, "another, where one is closed and empty");
	q = publish_msg_with(&third, "innocent/innocent");
	q.head.flags = PUBLISH_NEW;
	refused(&q, EEXIST, "already", "one in the place of a tensor");
	p = (struct publish_msg) {.n_bytes = 8};
	publish_msg_source(&p, SOURCE_BYTES, 8);
	publish_msg_name(&p, "c", 0, 0, 8, 1);
	if (ring_attach(&ring, second.map.ring, second.map.ring_size) < 0 ||
		ring_join(&ring, RING_PRODUCER, ours()) < 0 ||
		ring_close(&ring) < 0)
		bail("%s", tarn_fail_message());
	p.head.flags = PUBLISH_NEW;
	refused(&p, EEXIST, "which is closed",
		"a tensor in the place of a channel");
	p.head.flags = 0;
	taken(&p, "a tensor that may replace it");
	if (tarn_store_remove(witness.store, "c") < 0)
		bail("%s", tarn_error_message());
	drop(&first);
	drop(&second);
	drop(&third);
}

/* What its users have put in would be nobody's: whatever the way, its name is
 * theirs until it is closed or removed. */
static void test_open_names(void)
{
	struct made first = make(), second = make();
	struct publish_msg channel = publish_msg_with(&first, "openset/c");
	struct publish_msg other = publish_msg_with(&second, "openset/c");
	struct publish_msg tensor = {.n_bytes = 8}, set = {.n_bytes = 8};
	const struct ring_note note = {0};
	struct order order = {0};
	struct ring ring;
	struct raw raw;
	uint32_t slot;
	const char *path = made_file("plain", 64, 1);
	int fd = opened(path);

	taken(&channel, "a channel");
	publish_msg_source(&tensor, SOURCE_BYTES, 8);
	publish_msg_name(&tensor, "openset/t", 0, 0, 8, 1);
	publish_msg_name(&tensor, "openset/c", 0, 0, 8, 1);
	refused(&tensor, EBUSY, "tarn channel rm openset/c",
		"a tensor in its place, where names may be replaced");
	refused(&other, EBUSY, "open channel", "another channel");
	publish_msg_source(&set, SOURCE_BYTES, 8);
	publish_msg_name(&set, "openset/t", 0, 0, 8, 1);
	set.head.flags = PUBLISH_REPLACE;
	set.prefix_size = set.head.prefix_size = 8;
	memcpy(set.prefix, "openset/", 8);
	refused(&set, EBUSY, "open channel", "a set of tensors around it");
	raw_open(&raw, server.socket);
	order_range(&order, 0, 64, 0);
	order_bytes(&order, "openset/c", 64);
	is_int(WIRE_ERROR, order_load(&order, &raw, fd, -1),
		"a file's tensor is refused in an open channel's place");
	is_int(EBUSY, raw.error, "the error of the file's tensor is EBUSY");
	raw_close(&raw);
	if (ring_attach(&ring, first.map.ring, first.map.ring_size) < 0 ||
		ring_join(&ring, RING_PRODUCER, ours()) < 0 ||
		ring_acquire(&ring, &slot) != 1 ||
		ring_publish(&ring, slot, &note) < 0 || ring_close(&ring) < 0)
		bail("%s", tarn_fail_message());
	refused(&tensor, EBUSY, "items that were not received",
		"a tensor in the place of a closed channel with an item");
	ok(tarn_store_remove(witness.store, "openset/c") == 0,
		"the channel kept its name and can be removed");
	fd_close(fd);
	drop(&first);
	drop(&second);
}

static uint32_t count_channels(void)
{
	struct tarn_report *report;
	uint32_t n = 0;

	if (tarn_store_report(witness.store, &report) < 0)
		bail("%s", tarn_error_message());
	for (uint32_t i = 0; i < report->n_pools; i++)
		n += report->pools[i].channels;
	tarn_report_free(report);
	return n;
}

/* It is charged for as any memory that somebody brings. */
static void test_charges(void)
{
	struct channel_geometry large = usual;
	struct made m = make(), n;
	struct publish_msg p = publish_msg_with(&m, "c");
	uint64_t before = witness.before.used;

	if (!witness_sees_used(&witness, before))
		bail("the memory of earlier channels is not released");
	taken(&p, "a channel");
	is_int(1, count_channels(), "the channel is counted");
	is_int((int64_t)m.size,
		(int64_t)(witness_status(&witness).used - before),
		"all memory of the channel is charged");
	large.ring.slot_bytes = 32u << 20;
	n = make_of(&large);
	p = publish_msg_with(&n, "large");
	refused(&p, ENOSPC, "budget", "one larger than the budget");
	if (tarn_store_remove(witness.store, "c") < 0)
		bail("%s", tarn_error_message());
	ok(witness_sees_used(&witness, before),
		"the memory of the closed channel is given back");
	is_int(0, count_channels(), "the channel is not counted after its end");
	drop(&m);
	drop(&n);
}

static void test_who(void)
{
	struct raw raw;

	raw_open(&raw, server.socket);
	raw_send(&raw, WIRE_CHANNEL, NULL, 0, NULL, 0);
	is_int(WIRE_CHANNEL_IS, raw_answer(&raw),
		"a look-up of a channel returns its geometry");
	raw_send(&raw, WIRE_CHANNEL, "x", 1, NULL, 0);
	ok(raw_is_closed(&raw),
		"a client whose look-up has surplus bytes is disconnected");
	raw_close(&raw);
}

/* ---- rubbish ----------------------------------------------------------- */

/* Writes all of what the server reads, the head too, until it is killed. */
static pid_t scribble(struct made *m)
{
	pid_t pid = fork();
	uint64_t x = 88172645463325252ull;
	uint64_t *words = (uint64_t *)(void *)m->at;

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		for (size_t i = 0; i < m->map.words_size / 8; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			/* Some of it looks like what should be there. */
			words[i] = x % 3 ? x : x & 0xffff000000001fffull;
		}
}

/* Each time a connection ends the server looks at all channels; each time a
 * storage loses its name, into all items. */
static void test_rubbish(void)
{
	struct made m = make();
	struct publish_msg p = publish_msg_with(&m, "rubbish"),
			   small = {.n_bytes = 64};
	pid_t pid;
	int r;

	taken(&p, "a channel");
	pid = scribble(&m);
	publish_msg_source(&small, SOURCE_BYTES, 64);
	publish_msg_name(&small, "small", 0, 0, 64, 1);
	for (int i = 0; i < 30; i++) {
		struct raw raw;

		if (answer_to(&small, &raw) != WIRE_PUBLISHED ||
			tarn_store_remove(witness.store, "small") < 0)
			bail("%s %s", raw.text, tarn_error_message());
	}
	witness_is_served(&witness, "a channel full of rubbish");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	/* It may have said that it is over. */
	r = tarn_store_remove(witness.store, "rubbish");
	if (r < 0 && r != -ENOENT)
		bail("%s", tarn_error_message());
	drop(&m);
}

int main(void)
{
	const char *const options[] = {
		"--budget", "128M", "--segment-size", "32M", NULL};

	daemon_start(&server, "s", options);
	witness_begin(&witness, &server);
	test_messages();
	test_second_name();
	test_memory();
	test_names();
	test_open_names();
	test_charges();
	test_who();
	test_rubbish();
	witness_end(&witness);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(87);
}
