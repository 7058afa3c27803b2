/* SPDX-License-Identifier: MIT */
#include "tests/publish_kit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/raw_client.h"
#include "tests/tap.h"

struct daemon kit_daemon;
struct witness kit_witness;

void kit_begin(void)
{
	daemon_start(&kit_daemon, "hostile.sock", NULL);
	witness_begin(&kit_witness, &kit_daemon);
}

void kit_end(void)
{
	witness_end(&kit_witness);
	remove_files();
	is_int(0, daemon_stop(&kit_daemon), "the daemon ends in peace");
}

struct parcel kit_good(void)
{
	struct parcel p = {.n_bytes = 64};

	parcel_source(&p, SOURCE_BYTES, 64);
	parcel_name(&p, "good", 0, 0, 64, 1);
	return p;
}

struct parcel kit_brings(enum source_kind kind, uint64_t size, int fd)
{
	return parcel_of(kind, size, fd, "brought");
}

int kit_memfd(uint64_t size)
{
	int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		bail("memfd: %m");
	return fd;
}

void kit_fill(int fd, uint64_t size, int byte)
{
	unsigned char *page = malloc(size);

	memset(page, byte, size);
	if (pwrite(fd, page, size, 0) != (ssize_t)size)
		bail("pwrite: %m");
	free(page);
}

void kit_refused(
	const struct parcel *p, int error, const char *part, const char *what)
{
	struct raw raw;
	int type;

	raw_open(&raw, kit_daemon.socket);
	type = parcel_answer(p, &raw);
	if (type != WIRE_ERROR || raw.error != error)
		diag("type %d, error %d: %s", type, raw.error, raw.text);
	ok(type == WIRE_ERROR && raw.error == error && strstr(raw.text, part),
		"refused: %s", what);
	if (!strstr(raw.text, part))
		diag("wanted \"%s\" in: %s", part, raw.text);
	raw_close(&raw);
}
