/* SPDX-License-Identifier: MIT */
/*
 * Publications of a device's memory that lie: about its size, its device, or by
 * a descriptor that cannot be one. A device file and an anonymous inode, which
 * is what drivers export, are kept and handed out as they came. Nothing that is
 * refused stays open, and no file system is asked.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/kit/device.h"
#include "tests/kit/fuse_hang.h"
#include "tests/kit/must.h"
#include "tests/kit/publish.h"
#include "tests/kit/report.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"

enum { SIZE = 4096 };

/* One that is right, under a name. Its bytes are a msg_device. */
static struct publish_msg brings(const char *name, uint64_t size, int fd)
{
	struct msg_device device = {.flags = 0};
	struct publish_msg p = publish_msg_of(SOURCE_DEVICE, size, fd, name);

	memcpy(device.uuid, kit_device_uuid, sizeof(device.uuid));
	memcpy(p.bytes, &device, sizeof(device));
	p.n_bytes = sizeof(device);
	return p;
}

static void refused(int fd, int error, const char *part, const char *what)
{
	struct publish_msg p = brings("refused", SIZE, fd);

	kit_publish_refused(&p, error, part, what);
	close(fd);
}

/* ---- words ------------------------------------------------------------- */

static void lie_about_fields(int memory)
{
	struct publish_msg p = brings("lies", 0, memory);

	kit_publish_refused(&p, EINVAL, "0 bytes of a device", "no bytes");
	p = brings("lies", DEVICE_SIZE_MAX + 1, memory);
	kit_publish_refused(&p, EINVAL, "of a device; 1 to 17592186044416",
		"more bytes than a device has");
	p = brings("lies", UINT64_MAX, memory);
	kit_publish_refused(
		&p, EOVERFLOW, "source 0", "all bytes that there can be");
	p = brings("lies", SIZE, memory);
	memset(p.bytes, 0, 16);
	kit_publish_refused(&p, EINVAL, "UUID is all zeros", "no device");
	p = brings("lies", SIZE, memory);
	p.bytes[16] = 1;
	kit_publish_refused(&p, EINVAL, "flags 0x1", "an unknown flag");
	p = brings("lies", SIZE, memory);
	p.bytes[20] = 1;
	kit_publish_refused(&p, EINVAL, "flags 0, 0x1", "a word that is spare");
	p = brings("lies", SIZE, memory);
	p.n_bytes = 16;
	kit_publish_refused(
		&p, EPROTO, "ends in source 0", "a device that is cut");
	p = brings("lies", SIZE, memory);
	p.n_bytes += 8;
	kit_publish_refused(&p, EPROTO, "left over", "bytes behind the device");
	p = brings("lies", SIZE, memory);
	p.n_fds = 0;
	kit_publish_refused(&p, EBADF, "missing", "no descriptor");
	p = brings("lies", SIZE, memory);
	publish_msg_fd(&p, memory);
	kit_publish_refused(&p, EINVAL, "2 descriptors came for 1",
		"a descriptor too many");
	p = brings("lies", SIZE, memory);
	publish_msg_name(&p, "beyond", 0, 1, SIZE, 1);
	kit_publish_refused(
		&p, ERANGE, "reaches past", "a name that reaches past the end");
	p = brings("lies", SIZE + 1, memory);
	kit_publish_refused(&p, EINVAL, "has 4096 bytes, not 4097",
		"more bytes than the stand-in has");
}

/* ---- descriptors ----------------------------------------------------------- */

static void lie_by_descriptors(void)
{
	int pair[2];

	if (pipe2(pair, O_CLOEXEC) < 0)
		bail("pipe: %m");
	refused(pair[0], EBADF, "neither a device file", "a pipe");
	close(pair[1]);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		bail("socketpair: %m");
	refused(pair[0], EBADF, "neither a device file", "a socket");
	close(pair[1]);
	refused(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), EBADF,
		"neither a device file", "a directory");
	refused(open(made_file("file", SIZE, 1), O_RDONLY | O_CLOEXEC), EBADF,
		"neither a device file", "a file");
	refused(open("/dev/null", O_PATH | O_CLOEXEC), EBADF, "O_PATH",
		"a descriptor by which nothing can be done");
}

/* The server would wait for a file system that does not answer. */
static void lie_by_a_hanging_file(void)
{
	const char *why = hang_begin();
	int fd;

	if (why) {
		skip(3, "no file system that hangs: %s", why);
		return;
	}
	fd = open(hang_path(HANG_GETATTR), O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		bail("%s: %m", hang_path(HANG_GETATTR));
	hang_arm();
	refused(fd, EBADF, "neither a device file",
		"a file whose file system hangs");
	is_int(0, hang_caught(), "its file system was not asked");
	witness_is_served(
		&kit_publish_witness, "a file of a file system that hangs");
	hang_end();
}

/* ---- what is kept ------------------------------------------------------------ */

/* The descriptor that a client gets for what was published. */
static int fetched(struct raw *raw, const struct msg_stored *stored)
{
	struct msg_storage ask = {
		.index = stored->index, .generation = stored->generation};

	raw_send(raw, WIRE_STORAGE, &ask, sizeof(ask), NULL, 0);
	if (raw_answer(raw) != WIRE_STORAGE_FD || raw->n_fds != 1)
		bail("no descriptor: %s", raw->text);
	return raw->fds[0];
}

static bool same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino && x.st_mode == y.st_mode &&
	       x.st_rdev == y.st_rdev;
}

static void kept(const char *what, int fd)
{
	struct publish_msg p = brings("kept", SIZE, fd);
	tarn_store *store = kit_publish_witness.store;
	struct tarn_report_daemon d = {0};
	struct msg_stored stored;
	struct raw raw;

	raw_open(&raw, kit_publish_daemon.socket);
	if (!is_int(WIRE_PUBLISHED, publish_msg_answer(&p, &raw),
		    "%s is taken for memory of a device", what))
		diag("%s", raw.text);
	stored = raw.published.stored;
	raw_close(&raw);
	server_kill(&kit_publish_daemon);
	raw_open(&raw, kit_publish_daemon.socket);
	must(report_daemon(store, &d));
	is_int(SIZE, (int64_t)d.device_memory, "%s: its bytes are counted",
		what);
	ok(same_file(fd, fetched(&raw, &stored)),
		"%s is handed out by the next server as it came", what);
	must(tarn_store_remove(store, "kept"));
	raw_close(&raw);
	close(fd);
}

static void test_kept(void)
{
	kept("a device file", open("/dev/null", O_RDWR | O_CLOEXEC));
	kept("an anonymous inode", eventfd(0, EFD_CLOEXEC));
}

/* ---- what is asked for ---------------------------------------------------------- */

static void test_asked(void)
{
	struct msg_storage ask = {.index = UINT32_MAX, .generation = 1};
	struct raw raw;

	raw_open(&raw, kit_publish_daemon.socket);
	raw_send(&raw, WIRE_STORAGE, &ask, sizeof(ask), NULL, 0);
	ok(raw_answer(&raw) == WIRE_ERROR && raw.error == ESTALE,
		"a storage that cannot be is asked for in vain");
	ask.index = 0; /* "innocent", which lies in the pool */
	raw_send(&raw, WIRE_STORAGE, &ask, sizeof(ask), NULL, 0);
	ok(raw_answer(&raw) == WIRE_ERROR && raw.error == ESTALE,
		"a storage of the pool has no descriptor to be asked for");
	raw_close(&raw);
}

/* As a daemon has it that is not a test's: its memory would be counted as no
 * memory. */
static void refuse_memfd(void)
{
	setenv("TARN_DEVICE_MEMFD", "0", 1);
	kit_publish_begin();
	refused(kit_publish_memfd(SIZE), EBADF, "is a memfd, not memory of a",
		"a memfd is no memory of a device");
	kit_publish_end();
	setenv("TARN_DEVICE_MEMFD", "1", 1);
}

int main(void)
{
	int memory;

	refuse_memfd();
	kit_publish_begin();
	memory = kit_publish_memfd(SIZE);
	lie_about_fields(memory);
	close(memory);
	lie_by_descriptors();
	lie_by_a_hanging_file();
	test_asked();
	test_kept();
	kit_publish_end();
	return done(47);
}
