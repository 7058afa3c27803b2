/* SPDX-License-Identifier: MIT */
#include "tests/kit/publish.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"

struct daemon kit_publish_daemon;
struct witness kit_publish_witness;

void kit_publish_begin(void)
{
	daemon_start(&kit_publish_daemon, "hostile.sock", NULL);
	witness_begin(&kit_publish_witness, &kit_publish_daemon);
}

void kit_publish_end(void)
{
	witness_end(&kit_publish_witness);
	remove_files();
	is_int(0, daemon_stop(&kit_publish_daemon),
		"the daemon ends without an error");
}

struct publish_msg kit_publish_good(void)
{
	struct publish_msg p = {.n_bytes = 64};

	publish_msg_source(&p, SOURCE_BYTES, 64);
	publish_msg_name(&p, "good", 0, 0, 64, 1);
	return p;
}

struct publish_msg kit_publish_brings(
	enum source_kind kind, uint64_t size, int fd)
{
	return publish_msg_of(kind, size, fd, "brought");
}

int kit_publish_memfd(uint64_t size)
{
	int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		bail("memfd: %m");
	return fd;
}

void kit_publish_fill(int fd, uint64_t size, int byte)
{
	unsigned char *page = malloc(size);

	memset(page, byte, size);
	if (pwrite(fd, page, size, 0) != (ssize_t)size)
		bail("pwrite: %m");
	free(page);
}

void kit_publish_refused(const struct publish_msg *p, int error,
	const char *part, const char *what)
{
	struct raw raw;
	int type;

	raw_open(&raw, kit_publish_daemon.socket);
	type = publish_msg_answer(p, &raw);
	if (type != WIRE_ERROR || raw.error != error)
		diag("type %d, error %d: %s", type, raw.error, raw.text);
	ok(type == WIRE_ERROR && raw.error == error && strstr(raw.text, part),
		"a publication is refused: %s", what);
	if (!strstr(raw.text, part))
		diag("wanted \"%s\" in: %s", part, raw.text);
	raw_close(&raw);
}
