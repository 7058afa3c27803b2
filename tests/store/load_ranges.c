/* SPDX-License-Identifier: MIT */
/*
 * No client can make the daemon take other bytes for those of a file: a raw
 * client loads a file in two ranges whose ends are those of the file's one
 * range of data, with other bytes in between, or claims to have parsed another
 * header. A client that loads the file afterwards gets the file's bytes, even
 * if the server has died in between.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/report.h>

#include "base/page.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/versions.h"

#define PARTS 70
#define NEWEST 20

static struct daemon server;
static tarn_store *store;
static const char *path;

static void is_right(const char *when)
{
	tarn_tensor *all = NULL;
	tarn_file *file = NULL;
	int r = tarn_file_open(path, &file);

	if (r >= 0)
		r = tarn_store_load(store, file, NULL, NULL, &all);
	is_int(0, r, "the file is loaded %s", when);
	ok(r >= 0 && version_is_right(all, file),
		"the loaded bytes are right %s", when);
	tarn_tensor_unref(all);
	tarn_file_unref(file);
}

static void data_range(uint64_t *offset, uint64_t *size)
{
	tarn_file *file;

	if (tarn_file_open(path, &file) < 0)
		bail("%s", tarn_error_message());
	tarn_file_data_range(file, offset, size);
	tarn_file_unref(file);
}

static void two_ranges(void)
{
	struct order order = {0};
	uint64_t offset, size;
	struct raw raw;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	data_range(&offset, &size);
	raw_open(&raw, server.socket);
	order_range(&order, offset, PAGE, 0);
	/* A gap of zeros in between. */
	order_range(&order, offset + size - PAGE, PAGE, size - PAGE);
	strcpy(order.label, path);
	is_int(WIRE_LOADED, order_load(&order, &raw, fd, -1),
		"a raw client's load of two ranges is done");
	is_right("after two ranges");
	server_kill(&server);
	is_right("when the server has died");
	raw_close(&raw);
	close(fd);
}

/* One range, of a file whose header was another for a moment. */
static void other_header(void)
{
	struct order order = {0};
	uint64_t offset, size;
	struct raw raw;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	data_range(&offset, &size);
	raw_open(&raw, server.socket);
	order_range(&order, offset, size, 0);
	order.head.seen.header_size = offset;
	order.head.seen.header.low = 1;
	is_int(WIRE_ERROR, order_load(&order, &raw, fd, -1),
		"a raw client's load with another header is refused");
	is_int(ESTALE, raw.error, "the error says that the file changed");
	is_right("after another header");
	raw_close(&raw);
	close(fd);
}

static bool load_part(struct raw *raw, int fd, uint64_t i)
{
	struct order order = {0};

	order_range(&order, i, 1, 0);
	return order_load(&order, raw, fd, -1) == WIRE_LOADED;
}

/* A client decides which parts of a file are loaded, each a storage of its own;
 * all that are kept lie in one list. */
static void many_parts(void)
{
	struct raw raw;
	int fd = open(path, O_RDONLY | O_CLOEXEC), loaded = 0, cached = 0;
	struct tarn_report *report = NULL;

	raw_open(&raw, server.socket);
	for (uint64_t i = 0; i < PARTS; i++)
		loaded += load_part(&raw, fd, i);
	is_int(PARTS, loaded, "a raw client loads many single bytes of a file");
	for (uint64_t i = PARTS - NEWEST; i < PARTS; i++)
		cached += load_part(&raw, fd, i) &&
			  raw.loaded.flags & LOADED_CACHED;
	is_int(NEWEST, cached, "the parts that were loaded last are kept");
	raw_close(&raw);
	close(fd);
	if (tarn_store_report(store, &report) < 0)
		bail("%s", tarn_error_message());
	ok(report->daemon.bytes.cached <= 64,
		"the daemon keeps 64 parts of one file at most");
	diag("%llu bytes", (unsigned long long)report->daemon.bytes.cached);
	tarn_report_free(report);
}

int main(void)
{
	path = version_file(test_tmpdir(), "v.safetensors");
	daemon_start(&server, "s", NULL);
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	two_ranges();
	other_header();
	many_parts();
	tarn_store_unref(store);
	unlink(path);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(13);
}
