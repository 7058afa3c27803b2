/* SPDX-License-Identifier: MIT */
/*
 * Publications whose message lies, is sent again, or comes from a client that
 * leaves. Each is refused with a sentence; an innocent client is served all
 * the while, and the accounts are unchanged afterwards. Hostile memory is in
 * publish_memory.c.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "shm/lease.h"
#include "shm/table.h"
#include "tests/kit/must.h"
#include "tests/kit/publish.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/stopped_load.h"
#include "tests/kit/tap.h"

/* ---- words ------------------------------------------------------------- */

static void lie_about_sources(void)
{
	struct publish_msg p = kit_publish_good();

	p.head.n_sources = 65;
	kit_publish_refused(
		&p, EINVAL, "65 sources", "more sources than may be");
	p = kit_publish_good();
	p.head.n_sources = 64;
	kit_publish_refused(&p, EPROTO, "ends", "more sources than there are");
	p = kit_publish_good();
	p.sources[0].kind = 77;
	kit_publish_refused(&p, EINVAL, "of kind 77", "a kind that is none");
	p = kit_publish_good();
	p.sources[0].size = 65;
	kit_publish_refused(
		&p, EPROTO, "ends in source 0", "a byte more than there is");
	p = kit_publish_good();
	p.sources[0].size = UINT64_MAX;
	kit_publish_refused(
		&p, EOVERFLOW, "source 0", "all bytes that there can be");
	p = kit_publish_good();
	p.sources[0].size = PUBLISH_INLINE_MAX + 1;
	kit_publish_refused(
		&p, EINVAL, "send a memfd", "too many bytes for a message");
	p = kit_publish_good();
	publish_msg_source(&p, SOURCE_BYTES, INT64_MAX / 8);
	publish_msg_name(&p, "other", 1, 0, 1, 1);
	kit_publish_refused(
		&p, EINVAL, "send a memfd", "sizes whose sum is too large");
	p = kit_publish_good();
	publish_msg_source(&p, SOURCE_BYTES, 8);
	p.n_bytes += 8;
	kit_publish_refused(
		&p, EINVAL, "no name leads to source 1", "a source for nobody");
	p = kit_publish_good();
	p.n_bytes += 8;
	kit_publish_refused(&p, EPROTO, "left over", "bytes of no source");
	p = kit_publish_good();
	publish_msg_source(&p, SOURCE_COPY, 8);
	publish_msg_name(&p, "other", 1, 0, 8, 1);
	kit_publish_refused(&p, EBADF, "source 1", "a memfd that is not there");
}

static void lie_about_names(void)
{
	struct publish_msg p = kit_publish_good();

	p.head.n_names = 2;
	p.n_bytes = 0;
	kit_publish_refused(
		&p, EPROTO, "ends in a name", "a name that is not there");
	p = kit_publish_good();
	publish_msg_name(&p, "other", 1, 0, 1, 1);
	kit_publish_refused(
		&p, EINVAL, "source 1 of 1", "a source that is not there");
	p = kit_publish_good();
	publish_msg_name(&p, "other", 0, 1, 64, 1);
	kit_publish_refused(&p, ERANGE, "reaches past", "a byte past the end");
	p = kit_publish_good();
	publish_msg_name(&p, "other", 0, 0, 2, -1);
	kit_publish_refused(
		&p, ERANGE, "reaches past", "a byte before the beginning");
	p = kit_publish_good();
	publish_msg_name(&p, "other", 0, 0, 2, INT64_MAX);
	kit_publish_refused(&p, EOVERFLOW, "", "a stride over all numbers");
	p = kit_publish_good();
	publish_msg_name(&p, "other", 0, UINT64_MAX, 1, 1);
	kit_publish_refused(
		&p, ERANGE, "reaches past", "a base at the end of numbers");
	p = kit_publish_good();
	publish_msg_name(&p, "good", 0, 0, 1, 1);
	kit_publish_refused(&p, EINVAL, "given twice", "a name twice");
	p = kit_publish_good();
	publish_msg_name(&p, "b\nd", 0, 0, 1, 1);
	kit_publish_refused(&p, EINVAL, "", "a name that is none");
	p = (struct publish_msg) {0};
	kit_publish_refused(&p, EINVAL, "no name", "nothing");
}

static void lie_about_the_rest(void)
{
	struct publish_msg p = kit_publish_good();

	p.head.flags = 4;
	kit_publish_refused(&p, EINVAL, "flags 0x4", "an unknown flag");
	p = kit_publish_good();
	p.head.flags = PUBLISH_REPLACE;
	kit_publish_refused(&p, EINVAL, "prefix of 0", "an empty prefix");
	p = kit_publish_good();
	p.head.prefix_size = 8;
	kit_publish_refused(
		&p, EINVAL, "prefix of 8", "a prefix that is not replaced");
	p = kit_publish_good();
	p.head.flags = PUBLISH_REPLACE;
	p.head.prefix_size = 1025;
	kit_publish_refused(
		&p, EINVAL, "prefix of 1025", "one that is too long");
	p.head.prefix_size = 1024;
	kit_publish_refused(
		&p, EPROTO, "ends in a prefix", "one that is not there");
	p = kit_publish_good();
	p.head.flags = PUBLISH_REPLACE;
	p.head.prefix_size = 3;
	memcpy(p.prefix, "a\nb", 3);
	p.prefix_size = 8;
	kit_publish_refused(&p, EINVAL, "prefix", "one that is none");
}

static void name_what_is_not_held(void)
{
	struct publish_msg p = {0};
	struct raw raw;
	struct tarn_descriptor d;

	must(tarn_store_export(
		kit_publish_witness.store, kit_publish_witness.tensor, &d));
	publish_msg_source(&p, SOURCE_EXISTING, d.size);
	publish_msg_name(&p, "mine", 0, 0, 1, 1);
	p.sources[0].index = d.storage;
	p.sources[0].generation = d.generation;
	kit_publish_refused(&p, ESTALE, "not one that this connection holds",
		"another's storage");
	p.sources[0].generation++;
	kit_publish_refused(&p, ESTALE, "", "a generation to come");
	p.sources[0].index = UINT32_MAX;
	kit_publish_refused(&p, ESTALE, "", "an index out of range");
	raw_open(&raw, kit_publish_daemon.socket);
	for (int i = 0; i < 3; i++) {
		struct msg_storage ask = {
			.index = i == 0   ? d.storage
				 : i == 1 ? UINT32_MAX
					  : TABLE_STORAGES_MAX - 1,
			.generation = d.generation};

		raw_send(&raw, WIRE_STORAGE, &ask, sizeof(ask), NULL, 0);
		is_int(WIRE_ERROR, raw_answer(&raw),
			"the memfd of a storage that has none is refused");
		is_int(ESTALE, raw.error,
			"the error of a storage without a memfd is ESTALE");
	}
	raw_close(&raw);
}

/* ---- ends -------------------------------------------------------------- */

/* The server forgets a request once its answer is in the socket. */
static void test_sent_again(void)
{
	struct publish_msg p = kit_publish_good();
	struct {
		struct wire_header header;
		unsigned char body[4096];
	} frame;
	uint64_t first = 0, second = 0;
	struct raw raw;

	raw_open(&raw, kit_publish_daemon.socket);
	is_int(WIRE_PUBLISHED, publish_msg_answer(&p, &raw),
		"a tensor is published");
	must(tarn_store_version(kit_publish_witness.store, "good", &first));
	frame.header = (struct wire_header) {
		.magic = WIRE_MAGIC,
		.type = WIRE_PUBLISH,
		.flags = WIRE_AGAIN,
		.serial = raw.serial,
		.size = (uint32_t)publish_msg_write(&p, frame.body),
	};
	raw_frame(&raw, &frame, sizeof(frame.header) + frame.header.size, NULL,
		0);
	is_int(WIRE_PUBLISHED, raw_answer(&raw),
		"an answered publication that is sent again is a new one");
	must(tarn_store_version(kit_publish_witness.store, "good", &second));
	is_int((int64_t)first + 1, (int64_t)second,
		"the publication that is sent again is done");
	frame.header.serial++;
	raw_frame(&raw, &frame, sizeof(frame.header) + frame.header.size, NULL,
		0);
	is_int(WIRE_PUBLISHED, raw_answer(&raw),
		"a publication with another serial is a new one");
	must(tarn_store_version(kit_publish_witness.store, "good", &second));
	is_int((int64_t)first + 2, (int64_t)second,
		"the publication with another serial is done");
	must(tarn_store_remove(kit_publish_witness.store, "good"));
	raw_close(&raw);
}

/* The client goes while its memory is being copied, or before it has said
 * what it is for. */
static void leave_early(void)
{
	static unsigned char body[4096];
	struct publish_msg p;
	struct raw raw;
	int r;

	for (int i = 0; i < 20; i++) {
		int fd = kit_publish_memfd(16 * MIB);

		kit_publish_fill(fd, i % 2 ? 16 * MIB : MIB, 1);
		p = kit_publish_brings(
			i % 3 ? SOURCE_ADOPT : SOURCE_COPY, 16 * MIB, fd);
		p.head.flags = PUBLISH_NEW;
		raw_open(&raw, kit_publish_daemon.socket);
		raw_send(&raw, WIRE_PUBLISH, body, publish_msg_write(&p, body),
			p.fds, p.n_fds);
		usleep((unsigned)i * 500);
		raw_close(&raw);
		close(fd);
	}
	witness_is_served(&kit_publish_witness, "clients that leave");
	/* A client that has left publishes nothing any more; one may have been
	 * in time, or none. */
	for (int ms = 0; ms < RAW_PATIENCE_MS; ms += 5) {
		if (witness_status(&kit_publish_witness).clients ==
			kit_publish_witness.before.clients)
			break;
		usleep(5000);
	}
	r = tarn_store_remove(kit_publish_witness.store, "brought");
	if (r < 0 && r != -ENOENT)
		bail("brought: %s", tarn_error_message());
}

/* ---- what never came whole --------------------------------------------- */

/* A load that goes no further than that memory was taken for it. */
static pid_t begin_load(struct raw *raw, int fd)
{
	pid_t loader = stopped_load_begin(&kit_publish_daemon);
	struct order order = {0};

	order_range(&order, 0, 64 * MIB, 0);
	order_send(&order, raw, fd, -1);
	stopped_load_await(
		&kit_publish_daemon, kit_publish_witness.store, loader);
	if (raw_receive(raw, RAW_PATIENCE_MS) != WIRE_LOADING)
		bail("no load began: %s", raw->text);
	return loader;
}

static void hold(struct raw *raw, struct lease_page *page)
{
	atomic_store(&page->used, 1);
	atomic_store(&page->slots[0],
		lease_word(raw->loading.index, raw->loading.generation));
}

static void wait_until_unnamed(const struct raw *raw)
{
	struct table table;
	uint64_t word = 0;

	if (table_map(raw->table, false, &table) < 0)
		bail("the table cannot be mapped");
	for (int ms = 0; ms < RAW_PATIENCE_MS; ms++) {
		word = table.storages[raw->loading.index].word;
		if (storage_word_state(word) == STORAGE_UNNAMED)
			break;
		usleep(1000);
	}
	is_int(STORAGE_UNNAMED, storage_word_state(word),
		"a cancelled load is held");
	is_int(0, (int64_t)table.storages[raw->loading.index].file.ino,
		"the cancelled load is no longer a file's");
	table_unmap(&table);
}

/* old: for long enough to be known by its stamps. */
static void name_what_never_came(int old)
{
	struct msg_cancel cancel = {0};
	struct msg_released release = {0};
	struct publish_msg p = {0};
	struct lease_page *page;
	struct raw raw;
	pid_t loader;

	raw_open(&raw, kit_publish_daemon.socket);
	if (lease_map(raw.lease, &page) < 0)
		bail("the leases cannot be mapped");
	loader = begin_load(&raw, old);
	hold(&raw, page);
	cancel.serial = raw.serial;
	raw_send(&raw, WIRE_CANCEL, &cancel, sizeof(cancel), NULL, 0);
	is_int(WIRE_ERROR, raw_answer(&raw),
		"the load is answered as cancelled");
	kill(loader, SIGCONT);
	wait_until_unnamed(&raw);
	publish_msg_source(&p, SOURCE_EXISTING, 64 * MIB);
	p.sources[0].index = release.index = raw.loading.index;
	p.sources[0].generation = release.generation = raw.loading.generation;
	publish_msg_name(&p, "part", 0, 0, 64 * MIB, 1);
	is_int(WIRE_ERROR, publish_msg_answer(&p, &raw),
		"a cancelled load cannot be published");
	is_int(ESTALE, raw.error,
		"the error says that the load's bytes are missing");
	atomic_store(&page->slots[0], 0);
	raw_send(&raw, WIRE_RELEASED, &release, sizeof(release), NULL, 0);
	lease_unmap(page);
	raw_close(&raw);
}

int main(void)
{
	int old = kit_publish_memfd(65 * MIB);

	kit_publish_begin();
	lie_about_sources();
	lie_about_names();
	lie_about_the_rest();
	name_what_is_not_held();
	test_sent_again();
	leave_early();
	sleep(2);
	usleep(200000);
	name_what_never_came(old);
	close(old);
	kit_publish_end();
	return done(54);
}
