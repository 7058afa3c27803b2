/* SPDX-License-Identifier: MIT */
/*
 * Loads that must not be: descriptors that are no readable regular files,
 * ranges that lie, names and layouts that reach elsewhere. Each is refused
 * with a sentence on a connection that stays good; nothing is published and
 * nothing is kept.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fd.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define SIZE 65536

static struct daemon server;
static struct witness witness;
static struct raw raw;
static const char *file;

/* Sends it with the file (fd -1) or another descriptor, which is closed. */
static void is_refused_with(struct order *order, int fd, int direct, int error,
	const char *sentence, const char *what)
{
	int type = order_load(order, &raw, fd, direct);

	is_int(WIRE_ERROR, type, "%s: the load is refused", what);
	if (error)
		is_int(error, raw.error, "%s: the load has the expected error",
			what);
	has_str(sentence, raw.text, "%s: the error contains the expected words",
		what);
	raw.text[0] = 0;
	raw.error = 0;
	fd_close(fd);
	fd_close(direct);
	if (type == 0) {
		raw_close(&raw);
		raw_open(&raw, server.socket);
	}
}

static void is_refused(
	struct order *order, int error, const char *sentence, const char *what)
{
	is_refused_with(order, opened(file), -1, error, sentence, what);
}

/* ---- descriptors --------------------------------------------------------- */

static struct order *plain(void)
{
	static struct order order;

	order_range(&order, 0, SIZE, 0);
	order_bytes(&order, "hostile", SIZE);
	return &order;
}

static void kinds(void)
{
	char fifo[300];
	int pair[2];

	is_refused_with(plain(), open(file, O_PATH | O_CLOEXEC), -1, EBADF,
		"O_PATH", "an O_PATH descriptor");
	is_refused_with(plain(), open(file, O_WRONLY | O_CLOEXEC), -1, EBADF,
		"writing only", "a descriptor for writing");
	is_refused_with(plain(), open(test_tmpdir(), O_RDONLY | O_CLOEXEC), -1,
		EISDIR, "folder", "a folder");
	snprintf(fifo, sizeof(fifo), "%s/fifo", test_tmpdir());
	if (mkfifo(fifo, 0600) < 0)
		bail("%s: %m", fifo);
	is_refused_with(plain(), open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC),
		-1, EINVAL, "fifo", "a fifo");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		bail("socketpair: %m");
	is_refused_with(plain(), pair[0], -1, EINVAL, "socket", "a socket");
	close(pair[1]);
	is_refused_with(plain(), open("/dev/zero", O_RDONLY | O_CLOEXEC), -1,
		EINVAL, "character device", "/dev/zero");
	is_refused_with(plain(), eventfd(0, EFD_CLOEXEC), -1, EINVAL,
		"not a regular file", "an eventfd");
	is_refused_with(plain(), -1, -1, EBADF, "descriptor", "none at all");
	/* Its own table: sealed memory of the daemon, which is a file too. */
	is_refused_with(plain(), fd_dup(raw.fd), -1, EINVAL, "socket",
		"the connection itself");
}

static void pairs(void)
{
	const char *other = made_file("other", SIZE, 8);
	int direct = opened_direct(other);

	is_refused_with(plain(), opened(file), opened(file), EINVAL,
		"without O_DIRECT", "a second descriptor that is not direct");
	is_refused_with(plain(), opened(file), open(file, O_PATH | O_CLOEXEC),
		EBADF, "O_PATH", "an O_PATH second descriptor");
	if (direct >= 0)
		is_refused_with(plain(), opened(file), direct, EINVAL,
			"different files", "descriptors of two files");
	else
		skip(3, "no O_DIRECT here");
}

static void three_descriptors(void)
{
	struct msg_load head = {0};
	int fds[3] = {0, 0, 0};

	raw_send(&raw, WIRE_LOAD, &head, sizeof(head), fds, 3);
	is_int(WIRE_ERROR, raw_answer(&raw),
		"a load with three descriptors is refused");
	has_str("3 descriptors", raw.text,
		"the error counts three descriptors");
}

/* A memfd is a regular file like any other. */
static void memfd(void)
{
	int fd = memfd_create("tarn-test-hostile", MFD_CLOEXEC);
	struct order order = {0};

	if (fd < 0 || fd_write_all(fd, "0123456789", 10) < 0)
		bail("memfd: %m");
	order_range(&order, 2, 5, 0);
	is_int(WIRE_LOADED, order_load(&order, &raw, fd, -1),
		"a memfd is loaded");
	is_int(5, (int64_t)raw.loaded.size,
		"the load of a memfd has the bytes that were asked for");
	close(fd);
}

/* ---- ranges -------------------------------------------------------------- */

static void ranges(void)
{
	static const struct {
		const char *what, *sentence;
		int error;
		int n;
		uint64_t r[3][3]; /* file offset, size, storage offset */
	} cases[] = {
		{"a range past the end", "65536", 0, 1, {{1, SIZE, 0}}},
		{"a range far past it", "", 0, 1, {{1ull << 40, 1, 0}}},
		{"an empty range", "empty", EINVAL, 1, {{0, 0, 0}}},
		{"one of 2^63 bytes", "do not fit", EOVERFLOW, 1,
			{{0, 1ull << 63, 0}}},
		{"one at 2^63", "do not fit", EOVERFLOW, 1,
			{{1ull << 63, 1, 0}}},
		{"one around the end of numbers", "do not fit", EOVERFLOW, 1,
			{{~0ull, 2, 0}}},
		{"one of 2^59 bytes", "", 0, 1, {{0, 1ull << 59, 0}}},
		{"a first one that is not at 0", "not at 0", EINVAL, 1,
			{{0, 10, 4096}}},
		{"one that lands at 2^63", "do not fit", EOVERFLOW, 2,
			{{0, 10, 0}, {0, 10, 1ull << 63}}},
		{"one that lands at 2^59", "", 0, 2,
			{{0, 10, 0}, {0, 10, 1ull << 59}}},
		{"two that are the same", "overlap", EINVAL, 2,
			{{0, 8192, 0}, {0, 8192, 0}}},
		{"two that overlap", "overlap", EINVAL, 2,
			{{0, 8192, 0}, {0, 8192, 4096}}},
		{"two that share a page", "share a page", EINVAL, 2,
			{{0, 100, 0}, {4096, 100, 200}}},
		{"two that share one by their congruence", "share a page",
			EINVAL, 2, {{4000, 100, 0}, {8192, 100, 4096}}},
		{"three of which two overlap", "overlap", EINVAL, 3,
			{{0, 4096, 0}, {0, 4096, 8192}, {0, 9, 8192}}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct order order = {0};

		for (int k = 0; k < cases[i].n; k++)
			order_range(&order, cases[i].r[k][0], cases[i].r[k][1],
				cases[i].r[k][2]);
		is_refused(&order, cases[i].error, cases[i].sentence,
			cases[i].what);
	}
}

/* Counts that the message does not hold. */
static void forged_counts(void)
{
	struct order order = {0};

	for (uint64_t i = 0; i < 65; i++)
		order_range(&order, 0, 1, i * 8192);
	is_refused(&order, EINVAL, "65 ranges", "65 ranges");
	order.head.n_ranges = 64;
	is_refused(&order, EPROTO, "ends in a range", "64 that are not there");
	order.head.n_ranges = UINT32_MAX;
	is_refused(&order, EINVAL, "limits", "2^32 - 1 ranges");
	order_range(&order, 0, 10, 0);
	order.head.n_names = 500000;
	is_refused(
		&order, EPROTO, "ends in a name", "names that are not there");
	order_range(&order, 0, 10, 0);
	order.head.n_names = UINT32_MAX;
	is_refused(&order, EINVAL, "limits", "2^32 - 1 names");
	order_range(&order, 0, 10, 0);
	memset(order.label, 'x', 1025);
	is_refused(&order, EINVAL, "limits", "a label of 1025 bytes");
	order_range(&order, 0, 10, 0);
	strcpy(order.label, "label");
	order.head.label_size = 6;
	is_refused(&order, EPROTO, "left over", "a label that is too short");
	order_range(&order, 0, 10, 0);
	strcpy(order.label, "label");
	order.head.label_size = 4;
	is_refused(&order, EPROTO, "left over", "bytes behind the label");
	order_range(&order, 0, 10, 0);
	order.head.flags = 8;
	is_refused(&order, EINVAL, "flags 8", "unknown flags");
	order_range(&order, 0, 10, 0);
	order.head.seen.header_size = LOAD_HEADER_MAX + 1ull;
	is_refused(&order, EINVAL, "header of", "a header of 128 MiB");
}

/* ---- names --------------------------------------------------------------- */

static void name_refused(const char *name, size_t size, int error,
	const char *sentence, const char *what)
{
	struct order order = {0};

	order_range(&order, 0, SIZE, 0);
	order_bytes(&order, "hostile/first", SIZE);
	order_name(&order, name, size, TARN_U8, 1, (int64_t[]) {1},
		(int64_t[]) {1}, 0, 0);
	is_refused(&order, error, sentence, what);
}

static void names(void)
{
	static char many[70000];
	struct order order = {0};

	memset(many, 'n', sizeof(many));
	name_refused("", 0, EINVAL, "name", "an empty name");
	name_refused(many, 1025, ENAMETOOLONG, "1024", "one of 1025 bytes");
	name_refused(many, 65535, ENAMETOOLONG, "1024", "one of 65535");
	name_refused("a\xff", 2, EINVAL, "UTF-8", "one that is no UTF-8");
	name_refused("a\xc0\x80", 3, EINVAL, "UTF-8", "one that is overlong");
	name_refused("a\xed\xa0\x80", 4, EINVAL, "UTF-8", "a surrogate");
	name_refused("a\0b", 3, EINVAL, "", "one with a NUL");
	name_refused("a\nb", 3, EINVAL, "", "one with a line feed");
	name_refused("hostile/first", 13, EINVAL, "twice", "the same twice");
	/* A name that says that it is longer than the message. */
	order_range(&order, 0, SIZE, 0);
	order_bytes(&order, "x", 1);
	memcpy(order.names, (uint16_t[]) {1000}, 2);
	is_refused(&order, EPROTO, "ends in a name", "a forged length");
	order_range(&order, 0, SIZE, 0);
	order_bytes(&order, "x", 1);
	order.names[3] = 12;
	is_refused(&order, EPROTO, "ends in a name", "forged dimensions");
	order_range(&order, 0, SIZE, 0);
	order_bytes(&order, "x", 1);
	order.names[3] = 13;
	is_refused(&order, EINVAL, "13 dimensions", "13 dimensions");
	order_range(&order, 0, SIZE, 0);
	order_bytes(&order, "x", 1);
	order.names[3] = 255;
	is_refused(&order, EINVAL, "255 dimensions", "255 dimensions");
}

static void layouts(void)
{
	static const struct {
		const char *what;
		uint8_t dtype, ndim;
		int64_t shape[2], stride[2];
		uint64_t base;
		int64_t offset;
	} cases[] = {
		{"one byte too many", TARN_U8, 1, {SIZE + 1}, {1}, 0, 0},
		{"one byte too far", TARN_U8, 1, {SIZE}, {1}, 1, 0},
		{"one element too far", TARN_F32, 1, {SIZE / 4}, {1}, 0, 1},
		{"half an element outside", TARN_F64, 0, {0}, {0}, SIZE - 4, 0},
		{"a stride outside", TARN_U8, 1, {2}, {SIZE}, 0, 0},
		{"a negative stride outside", TARN_U8, 1, {2}, {-1}, 0, 0},
		{"one before its base", TARN_U8, 1, {3}, {-5}, 4096, 9},
		{"a negative offset", TARN_U8, 0, {0}, {0}, 100, -1},
		{"an offset of -2^63", TARN_U8, 0, {0}, {0}, 0, INT64_MIN},
		{"an offset of 2^63 - 1", TARN_U8, 0, {0}, {0}, 0, INT64_MAX},
		{"an offset whose bytes overflow", TARN_F64, 0, {0}, {0}, 0,
			INT64_MAX / 8 + 1},
		{"a base of 2^64 - 1", TARN_U8, 1, {2}, {1}, UINT64_MAX, 0},
		{"a base outside, and nothing in it", TARN_U8, 1, {0}, {1},
			SIZE + 1, 0},
		{"a negative extent", TARN_U8, 1, {-1}, {1}, 0, 0},
		{"2^62 x 4 elements", TARN_U8, 2, {1ll << 62, 4}, {0, 0}, 0, 0},
		{"2^62 x 4 strides", TARN_U8, 2, {2, 2}, {1ll << 62, 1ll << 62},
			0, 0},
		{"a stride of -2^63", TARN_U8, 1, {2}, {INT64_MIN}, 0, 0},
		{"dtype 0", 0, 1, {1}, {1}, 0, 0},
		{"dtype 23", 23, 1, {1}, {1}, 0, 0},
		{"dtype 255", 255, 1, {1}, {1}, 0, 0},
		{"half a byte", TARN_F4, 1, {3}, {1}, 0, 0},
		{"half bytes outside", TARN_F4, 1, {2 * SIZE + 2}, {1}, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct order order = {0};

		order_range(&order, 0, SIZE, 0);
		order_bytes(&order, "hostile/good", SIZE);
		order_name(&order, "hostile/bad", 11, cases[i].dtype,
			cases[i].ndim, cases[i].shape, cases[i].stride,
			cases[i].base, cases[i].offset);
		is_refused(&order, 0, "", cases[i].what);
	}
}

/* Names without bytes: tensors of no elements, and of some. */
static void no_ranges(void)
{
	struct order order = {0};

	order_bytes(&order, "hostile/nothing", 1);
	is_refused_with(&order, -1, -1, ERANGE, "reaches past the 0 bytes",
		"a byte of no bytes");
	is_int(WIRE_LOADED, order_load(&order, &raw, -1, -1),
		"a load without ranges and names does nothing");
}

/* That the bytes are here already is nothing to who cannot read the file. */
static void known_identity(void)
{
	double end = seconds() + 60;
	int type;

	/* Young files are not shared. */
	do {
		int fd = opened(file);

		type = order_load(plain(), &raw, fd, -1);
		close(fd);
		usleep(100000);
	} while (type == WIRE_LOADED && !(raw.loaded.flags & LOADED_CACHED) &&
		 seconds() < end);
	ok(type == WIRE_LOADED && raw.loaded.flags & LOADED_CACHED,
		"a file that was loaded before is not read again");
	is_refused_with(plain(), open(file, O_PATH | O_CLOEXEC), -1, EBADF,
		"O_PATH", "an O_PATH descriptor of a cached file");
	is_refused_with(plain(), open(file, O_WRONLY | O_CLOEXEC), -1, EBADF,
		"writing only", "a descriptor for writing of a cached file");
	is_refused_with(plain(), open(file, O_WRONLY | O_CLOEXEC), opened(file),
		EBADF, "writing only",
		"two descriptors for writing of a cached file");
}

/* Many at once, refused at every stage. */
static void many_at_once(void)
{
	int refused = 0;

	for (int i = 0; i < 80; i++) {
		struct order *order = plain();
		int fd = open(
			i % 2 ? test_tmpdir() : file, O_CLOEXEC | O_RDONLY);

		if (i % 2 == 0) /* past the end: after the memory is taken */
			order->ranges[0].file_offset = 1;
		order_send(order, &raw, fd, -1);
		close(fd);
	}
	for (int i = 0; i < 80; i++)
		refused += raw_answer(&raw) == WIRE_ERROR;
	is_int(80, refused, "80 bad loads on their way at once are refused");
}

int main(void)
{
	const char *const args[] = {"--idle", "1", NULL};

	daemon_start(&server, "s", args);
	witness_begin(&witness, &server);
	file = strdup(made_file("hostile", SIZE, 7));
	raw_open(&raw, server.socket);
	kinds();
	pairs();
	three_descriptors();
	witness_is_served(&witness, "descriptors that are no files");
	memfd();
	ranges();
	forged_counts();
	witness_is_served(&witness, "ranges that lie");
	names();
	layouts();
	no_ranges();
	known_identity();
	many_at_once();
	witness_is_served(&witness, "names that reach elsewhere");
	is_int(WIRE_LOADED, order_load(plain(), &raw, opened(file), -1),
		"the connection still works after all refused loads");
	raw_send(&raw, WIRE_REMOVE, "hostile", 7, NULL, 0);
	is_int(WIRE_DONE, raw_receive(&raw, RAW_PATIENCE_MS),
		"the connection can remove what it published");
	raw_close(&raw);
	witness_can_load(&witness, "after all that");
	witness_end(&witness);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(224);
}
