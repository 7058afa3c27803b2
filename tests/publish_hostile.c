/* SPDX-License-Identifier: MIT */
/*
 * Publications that lie: in the message, about what they bring, with
 * descriptors that are none, and with memory that somebody still writes. Each
 * is refused with a sentence, or copied; an innocent client is served all the
 * while, and the books are what they were afterwards.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/checked.h"
#include "shm/lease.h"
#include "shm/table.h"
#include "tests/catch.h"
#include "tests/parcel.h"
#include "tests/raw_client.h"
#include "tests/tap.h"
#include "tests/witness.h"

#define MIB (1u << 20)

static struct daemon server;
static struct witness witness;

/* One that is right: 64 bytes under a name. */
static struct parcel good(void)
{
	struct parcel p = {.n_bytes = 64};

	parcel_source(&p, SOURCE_BYTES, 64);
	parcel_name(&p, "good", 0, 0, 64, 1);
	return p;
}

static void refused(
	const struct parcel *p, int error, const char *part, const char *what)
{
	struct raw raw;
	int type;

	raw_open(&raw, server.socket);
	type = parcel_answer(p, &raw);
	if (type != WIRE_ERROR || raw.error != error)
		diag("type %d, error %d: %s", type, raw.error, raw.text);
	ok(type == WIRE_ERROR && raw.error == error && strstr(raw.text, part),
		"refused: %s", what);
	if (!strstr(raw.text, part))
		diag("wanted \"%s\" in: %s", part, raw.text);
	raw_close(&raw);
}

/* ---- words ----------------------------------------------------------- */

static void lie_about_sources(void)
{
	struct parcel p = good();

	p.head.n_sources = 65;
	refused(&p, EINVAL, "65 sources", "more sources than may be");
	p = good();
	p.head.n_sources = 64;
	refused(&p, EPROTO, "ends", "more sources than there are");
	p = good();
	p.sources[0].kind = 77;
	refused(&p, EINVAL, "of kind 77", "a kind that is none");
	p = good();
	p.sources[0].size = 65;
	refused(&p, EPROTO, "ends in source 0", "a byte more than there is");
	p = good();
	p.sources[0].size = UINT64_MAX;
	refused(&p, EOVERFLOW, "source 0", "all bytes that there can be");
	p = good();
	p.sources[0].size = PUBLISH_INLINE_MAX + 1;
	refused(&p, EINVAL, "send a memfd", "too many bytes for a message");
	p = good();
	parcel_source(&p, SOURCE_BYTES, INT64_MAX / 8);
	parcel_name(&p, "other", 1, 0, 1, 1);
	refused(&p, EINVAL, "send a memfd", "sizes whose sum is too large");
	p = good();
	parcel_source(&p, SOURCE_BYTES, 8);
	p.n_bytes += 8;
	refused(&p, EINVAL, "no name leads to source 1", "a source for nobody");
	p = good();
	p.n_bytes += 8;
	refused(&p, EPROTO, "left over", "bytes of no source");
	p = good();
	parcel_source(&p, SOURCE_COPY, 8);
	parcel_name(&p, "other", 1, 0, 8, 1);
	refused(&p, EBADF, "source 1", "a memfd that is not there");
}

static void lie_about_names(void)
{
	struct parcel p = good();

	p.head.n_names = 2;
	p.n_bytes = 0;
	refused(&p, EPROTO, "ends in a name", "a name that is not there");
	p = good();
	parcel_name(&p, "other", 1, 0, 1, 1);
	refused(&p, EINVAL, "source 1 of 1", "a source that is not there");
	p = good();
	parcel_name(&p, "other", 0, 1, 64, 1);
	refused(&p, ERANGE, "reaches past", "a byte past the end");
	p = good();
	parcel_name(&p, "other", 0, 0, 2, -1);
	refused(&p, ERANGE, "reaches past", "a byte before the beginning");
	p = good();
	parcel_name(&p, "other", 0, 0, 2, INT64_MAX);
	refused(&p, EOVERFLOW, "", "a stride over all numbers");
	p = good();
	parcel_name(&p, "other", 0, UINT64_MAX, 1, 1);
	refused(&p, ERANGE, "reaches past", "a base at the end of numbers");
	p = good();
	parcel_name(&p, "good", 0, 0, 1, 1);
	refused(&p, EINVAL, "given twice", "a name twice");
	p = good();
	parcel_name(&p, "b\nd", 0, 0, 1, 1);
	refused(&p, EINVAL, "", "a name that is none");
	p = (struct parcel) {0};
	refused(&p, EINVAL, "no name", "nothing");
}

static void lie_about_the_rest(void)
{
	struct parcel p = good();

	p.head.flags = 4;
	refused(&p, EINVAL, "flags 0x4", "an unknown flag");
	p = good();
	p.head.flags = PUBLISH_REPLACE;
	refused(&p, EINVAL, "prefix of 0", "an empty prefix");
	p = good();
	p.head.prefix_size = 8;
	refused(&p, EINVAL, "prefix of 8", "a prefix that is not replaced");
	p = good();
	p.head.flags = PUBLISH_REPLACE;
	p.head.prefix_size = 1025;
	refused(&p, EINVAL, "prefix of 1025", "one that is too long");
	p.head.prefix_size = 1024;
	refused(&p, EPROTO, "ends in a prefix", "one that is not there");
	p = good();
	p.head.flags = PUBLISH_REPLACE;
	p.head.prefix_size = 3;
	memcpy(p.prefix, "a\nb", 3);
	p.prefix_size = 8;
	refused(&p, EINVAL, "prefix", "one that is none");
}

static void name_what_is_not_held(void)
{
	struct parcel p = {0};
	struct raw raw;
	struct tarn_descriptor d;

	tarn_store_export(witness.store, witness.tensor, &d);
	parcel_source(&p, SOURCE_EXISTING, d.size);
	parcel_name(&p, "mine", 0, 0, 1, 1);
	p.sources[0].index = d.storage;
	p.sources[0].generation = d.generation;
	refused(&p, ESTALE, "not one that this connection holds",
		"another's storage");
	p.sources[0].generation++;
	refused(&p, ESTALE, "", "a generation to come");
	p.sources[0].index = UINT32_MAX;
	refused(&p, ESTALE, "", "an index out of range");
	raw_open(&raw, server.socket);
	for (int i = 0; i < 3; i++) {
		struct msg_storage ask = {
			.index = i == 0   ? d.storage
				 : i == 1 ? UINT32_MAX
					  : TABLE_STORAGES_MAX - 1,
			.generation = d.generation};

		raw_say(&raw, WIRE_STORAGE, &ask, sizeof(ask), NULL, 0);
		is_int(WIRE_ERROR, raw_answer(&raw),
			"the memfd of a storage that has none");
		is_int(ESTALE, raw.error, "is not to be had");
	}
	raw_close(&raw);
}

/* ---- descriptors ----------------------------------------------------- */

static int memfd(uint64_t size)
{
	int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		bail("memfd: %m");
	return fd;
}

static struct parcel brings(enum source_kind kind, uint64_t size, int fd)
{
	return parcel_of(kind, size, fd, "brought");
}

/* Whatever is said of it. */
static void refused_as_any(int fd, int error, const char *what)
{
	static const enum source_kind kinds[] = {
		SOURCE_COPY, SOURCE_ADOPT, SOURCE_MUTABLE};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct parcel p = brings(kinds[i], 2 * MIB, fd);

		refused(&p, error, "source 0", what);
	}
	close(fd);
}

static int reopened(int fd, int flags)
{
	char path[64];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, flags | O_CLOEXEC);
	close(fd);
	return again;
}

static void bring_the_wrong(void)
{
	int pair[2];

	if (pipe2(pair, O_CLOEXEC) < 0)
		bail("pipe: %m");
	refused_as_any(pair[0], EBADF, "a pipe");
	close(pair[1]);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		bail("socketpair: %m");
	refused_as_any(pair[0], EBADF, "a socket");
	close(pair[1]);
	refused_as_any(open("/dev/zero", O_RDWR | O_CLOEXEC), EBADF, "zeroes");
	refused_as_any(open("/proc/self/status", O_RDONLY | O_CLOEXEC), EBADF,
		"a file that is made as it is read");
	refused_as_any(open("/", O_PATH | O_CLOEXEC), EBADF, "a mere path");
	refused_as_any(open("/dev/shm", O_RDONLY | O_CLOEXEC), EBADF,
		"a folder, if in memory");
	refused_as_any(opened(made_file("plain", 2 * MIB, 1)), EBADF,
		"a file on a disk");
	refused_as_any(reopened(memfd(2 * MIB), O_WRONLY), EBADF,
		"a memfd that cannot be read");
	refused_as_any(reopened(memfd(2 * MIB), O_PATH), EBADF,
		"the mere path of one");
	refused_as_any(memfd(2 * MIB - 1), EINVAL, "one that is too short");
	witness_is_served(&witness, "the wrong descriptors");
}

static void bring_too_many(void)
{
	struct parcel p = good();
	int fd = memfd(4096);

	parcel_fd(&p, fd);
	refused(&p, EINVAL, "1 descriptors came for 0",
		"a descriptor for nothing");
	close(fd);
}

static void bring_a_bad_mutable(void)
{
	struct parcel p;
	int fd = memfd(8192);

	p = brings(SOURCE_MUTABLE, 4096, fd);
	refused(&p, EINVAL, "whole pages", "more memory than it counts");
	close(fd);
	fd = reopened(memfd(4096), O_RDONLY);
	p = brings(SOURCE_MUTABLE, 4096, fd);
	refused(&p, EINVAL, "open for writing", "one that cannot be written");
	close(fd);
	fd = memfd(4096);
	fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE);
	p = brings(SOURCE_MUTABLE, 4096, fd);
	refused(&p, EINVAL, "seals", "one that is sealed");
	close(fd);
	fd = memfd(4096);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL);
	p = brings(SOURCE_MUTABLE, 4096, fd);
	refused(&p, EINVAL, "seals", "one that cannot be sealed");
	close(fd);
}

/* ---- memory that is not what it should be ---------------------------- */

static void fill(int fd, uint64_t size, int byte)
{
	unsigned char *page = malloc(size);

	memset(page, byte, size);
	if (pwrite(fd, page, size, 0) != (ssize_t)size)
		bail("pwrite: %m");
	free(page);
}

/* Publishes it to be adopted; the pool that it came to lie in. */
static uint32_t pool_of(int fd, uint64_t size, const char *what)
{
	struct parcel p = brings(SOURCE_ADOPT, size, fd);
	struct tarn_descriptor d = {0};
	tarn_tensor *t = NULL;
	struct raw raw;

	raw_open(&raw, server.socket);
	is_int(WIRE_PUBLISHED, parcel_answer(&p, &raw), "%s", what);
	if (tarn_store_lookup(witness.store, "brought", &t) >= 0)
		tarn_store_export(witness.store, t, &d);
	tarn_tensor_unref(t);
	raw_close(&raw);
	return d.pool;
}

static unsigned char first_byte(void)
{
	tarn_tensor *t = NULL;
	unsigned char byte = 0;

	if (tarn_store_lookup(witness.store, "brought", &t) >= 0)
		byte = *(unsigned char *)tarn_tensor_data(t);
	tarn_tensor_unref(t);
	return byte;
}

static void copied_if(bool copied, int fd, uint64_t size, const char *what)
{
	uint32_t pool = pool_of(fd, size, what);

	ok((pool == TABLE_POOL_OWN) == !copied, "it is %s: %s",
		copied ? "copied" : "adopted", what);
	is_int(0, tarn_store_remove(witness.store, "brought"), "and removed");
	close(fd);
}

static void bring_odd_memory(void)
{
	int fd = memfd(4 * MIB);

	fill(fd, 4 * MIB, 7);
	copied_if(false, fd, 4 * MIB, "what is as it should be");
	copied_if(true, memfd(4 * MIB), 4 * MIB, "memory that is all holes");
	fd = memfd(8 * MIB);
	fill(fd, 8 * MIB, 7);
	copied_if(true, fd, 4 * MIB, "a memfd of twice the size");
	fd = memfd(4 * MIB);
	fill(fd, 4 * MIB, 7);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL);
	copied_if(true, fd, 4 * MIB, "one that takes no seals");
	fd = memfd(4 * MIB);
	fill(fd, 4 * MIB, 7);
	copied_if(true, reopened(fd, O_RDONLY), 4 * MIB,
		"one that we may not seal");
	fd = memfd(4 * MIB);
	fill(fd, 4 * MIB, 7);
	fcntl(fd, F_ADD_SEALS,
		F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	copied_if(false, fd, 4 * MIB, "one that is sealed already");
}

static void keep_a_mapping(void)
{
	int fd = memfd(4 * MIB);
	unsigned char *map =
		mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		bail("mmap: %m");
	memset(map, 5, 4 * MIB);
	ok(pool_of(fd, 4 * MIB, "memory that is mapped for writing") !=
			TABLE_POOL_OWN,
		"is copied");
	memset(map, 6, 4 * MIB);
	is_int(5, first_byte(), "what is written since is not seen");
	tarn_store_remove(witness.store, "brought");
	munmap(map, 4 * MIB);
	close(fd);
}

/* Pages in a pipe are held as those are that a device writes. */
static void keep_pages_pinned(void)
{
	int fd = memfd(4 * MIB), pipe_fds[2];
	struct iovec v;
	double start = seconds();
	void *map =
		mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED || pipe2(pipe_fds, O_CLOEXEC) < 0)
		bail("mmap: %m");
	memset(map, 5, 4 * MIB);
	v = (struct iovec) {map, 8192};
	if (vmsplice(pipe_fds[1], &v, 1, 0) <= 0)
		bail("vmsplice: %m");
	munmap(map, 4 * MIB);
	ok(pool_of(fd, 4 * MIB, "memory whose pages are pinned") !=
			TABLE_POOL_OWN,
		"is copied");
	ok(seconds() - start < 5, "in time");
	is_int(5, first_byte(), "whole");
	tarn_store_remove(witness.store, "brought");
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	close(fd);
}

/* ---- ends ------------------------------------------------------------ */

/* What was sent once more is done once. */
static void say_it_again(void)
{
	struct parcel p = good();
	struct {
		struct wire_header header;
		unsigned char body[4096];
	} frame;
	uint64_t first = 0, second = 0;
	struct raw raw;

	raw_open(&raw, server.socket);
	is_int(WIRE_PUBLISHED, parcel_answer(&p, &raw), "published");
	tarn_store_version(witness.store, "good", &first);
	frame.header = (struct wire_header) {
		.magic = WIRE_MAGIC,
		.type = WIRE_PUBLISH,
		.flags = WIRE_AGAIN,
		.serial = raw.serial,
		.size = (uint32_t)parcel_write(&p, frame.body),
	};
	raw_frame(&raw, &frame, sizeof(frame.header) + frame.header.size, NULL,
		0);
	is_int(WIRE_PUBLISHED, raw_answer(&raw), "asked again: answered");
	tarn_store_version(witness.store, "good", &second);
	is_int((int64_t)first, (int64_t)second, "and not done again");
	frame.header.serial++;
	raw_frame(&raw, &frame, sizeof(frame.header) + frame.header.size, NULL,
		0);
	is_int(WIRE_PUBLISHED, raw_answer(&raw), "another is another");
	tarn_store_version(witness.store, "good", &second);
	is_int((int64_t)first + 1, (int64_t)second, "and done");
	tarn_store_remove(witness.store, "good");
	raw_close(&raw);
}

/* The client goes while its memory is being copied, or before it has said
 * what it is for. */
static void leave_early(void)
{
	static unsigned char body[4096];
	struct parcel p;
	struct raw raw;

	for (int i = 0; i < 20; i++) {
		int fd = memfd(16 * MIB);

		fill(fd, i % 2 ? 16 * MIB : MIB, 1);
		p = brings(i % 3 ? SOURCE_ADOPT : SOURCE_COPY, 16 * MIB, fd);
		p.head.flags = PUBLISH_NEW;
		raw_open(&raw, server.socket);
		raw_say(&raw, WIRE_PUBLISH, body, parcel_write(&p, body), p.fds,
			p.n_fds);
		usleep((unsigned)i * 500);
		raw_close(&raw);
		close(fd);
	}
	witness_is_served(&witness, "clients that leave");
	/* Who has left publishes nothing any more; one may have been in time.
	 */
	for (int ms = 0; ms < RAW_PATIENCE_MS; ms += 5) {
		if (witness_status(&witness).clients == witness.before.clients)
			break;
		usleep(5000);
	}
	tarn_store_remove(witness.store, "brought");
}

/* ---- what never came whole ---------------------------------------------- */

/* A load that goes no further than that memory was taken for it. */
static pid_t begin_load(struct raw *raw, int fd)
{
	pid_t loader = catch_begin(&server);
	struct order order = {0};

	order_range(&order, 0, 64 * MIB, 0);
	order_send(&order, raw, fd, -1);
	catch_load(&server, witness.store, loader);
	if (raw_hear(raw, RAW_PATIENCE_MS) != WIRE_LOADING)
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
		"a load that was cancelled is held");
	is_int(0, (int64_t)table.storages[raw->loading.index].file_ino,
		"and is no file any more");
	table_unmap(&table);
}

/* old: for long enough to be known by its stamps. */
static void name_what_never_came(int old)
{
	struct msg_cancel cancel = {0};
	struct msg_released bell = {0};
	struct parcel p = {0};
	struct lease_page *page;
	struct raw raw;
	pid_t loader;

	raw_open(&raw, server.socket);
	if (lease_map(raw.lease, &page) < 0)
		bail("the leases cannot be mapped");
	loader = begin_load(&raw, old);
	hold(&raw, page);
	cancel.serial = raw.serial;
	raw_say(&raw, WIRE_CANCEL, &cancel, sizeof(cancel), NULL, 0);
	is_int(WIRE_ERROR, raw_answer(&raw), "it is cancelled");
	kill(loader, SIGCONT);
	wait_until_unnamed(&raw);
	parcel_source(&p, SOURCE_EXISTING, 64 * MIB);
	p.sources[0].index = bell.index = raw.loading.index;
	p.sources[0].generation = bell.generation = raw.loading.generation;
	parcel_name(&p, "part", 0, 0, 64 * MIB, 1);
	is_int(WIRE_ERROR, parcel_answer(&p, &raw), "nobody can publish it");
	is_int(ESTALE, raw.error, "since its bytes are not there");
	atomic_store(&page->slots[0], 0);
	raw_say(&raw, WIRE_RELEASED, &bell, sizeof(bell), NULL, 0);
	lease_unmap(page);
	raw_close(&raw);
}

int main(void)
{
	int old = memfd(65 * MIB);

	daemon_start(&server, "hostile.sock", NULL);
	witness_begin(&witness, &server);
	lie_about_sources();
	lie_about_names();
	lie_about_the_rest();
	name_what_is_not_held();
	bring_the_wrong();
	bring_too_many();
	bring_a_bad_mutable();
	bring_odd_memory();
	keep_a_mapping();
	keep_pages_pinned();
	say_it_again();
	leave_early();
	sleep(2);
	usleep(200000);
	name_what_never_came(old);
	close(old);
	witness_end(&witness);
	remove_files();
	is_int(0, daemon_stop(&server), "the daemon ends in peace");
	return done();
}
