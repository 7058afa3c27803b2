/* SPDX-License-Identifier: MIT */
/*
 * What the loader refuses, and what it survives: descriptors of no regular
 * file, files that change or shrink while they are read, ranges that lie,
 * dropped jobs, a server that goes away in the middle of a load, and malformed
 * messages. Each is an error of that one job; the next load succeeds.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "base/page.h"
#include "tests/kit/loader.h"
#include "tests/kit/tap.h"

#define MIB (1ull << 20)
#define TESTS_EACH 66

static struct kit kit;
static uint64_t jobs;

/* L_FILE is refused with that error and those words. */
static void refused(
	int fd, int direct, int error, const char *words, const char *what)
{
	int type = kit_loader_identify(&kit, ++jobs, fd, direct);

	is_int(error, type == L_FAILED ? kit.error : -type,
		"a job is refused: %s", what);
	has_str(words, kit.text, "%s: the error contains the reason", what);
}

static void no_files(void)
{
	char fifo[4300];
	int fd, other;

	snprintf(fifo, sizeof(fifo), "%s/fifo", test_tmpdir());
	if (mkfifo(fifo, 0600) < 0)
		bail("mkfifo: %m");
	fd = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	refused(fd, -1, EINVAL, "the file is a fifo, not a regular file",
		"a fifo");
	close(fd);
	unlink(fifo);
	fd = open(test_tmpdir(), O_RDONLY | O_CLOEXEC);
	refused(fd, -1, EISDIR, "the file is a folder, not", "a folder");
	close(fd);
	fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	refused(fd, -1, EINVAL, "a character device", "a device");
	close(fd);
	fd = open(kit_loader_file("a", 100), O_WRONLY | O_CLOEXEC);
	refused(fd, -1, EBADF, "for writing only", "a write-only descriptor");
	close(fd);
	fd = open(kit_loader_file("a", 100), O_PATH | O_CLOEXEC);
	refused(fd, -1, EBADF, "O_PATH", "an O_PATH descriptor");
	close(fd);
	refused(-1, -1, EINVAL, "0 descriptors", "no descriptor");

	fd = open(kit_loader_file("a", 100), O_RDONLY | O_CLOEXEC);
	other = open(kit_loader_file("a", 100), O_RDONLY | O_CLOEXEC);
	refused(fd, other, EINVAL, "without O_DIRECT", "two buffered ones");
	close(other);
	other = kit_loader_open_direct(kit_loader_file("b", 100));
	if (other >= 0)
		refused(fd, other, EINVAL, "of different files",
			"a wrong pair");
	else
		skip(2, "O_DIRECT is refused by the file system of TMPDIR");
	fd_close(other);
	close(fd);
}

/* A file of 100000 bytes, identified. */
static int begin(const char *name, char path[static 4300])
{
	int fd;

	snprintf(path, 4300, "%s", kit_loader_file(name, 100000));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (kit_loader_identify(&kit, ++jobs, fd, -1) != L_IDENTITY)
		bail("%s: %s", name, kit.text);
	/* Times are as fine as the kernel's tick: let it pass. */
	usleep(30000);
	return fd;
}

static int fill_begun(void)
{
	struct msg_fill_range range = {0, 100000, KIT_FIRST};

	return kit_loader_fill(&kit, jobs, KIT_FIRST, 25 * PAGE, &range, 1);
}

static void is_written(void)
{
	char path[4300];
	int fd;

	fd = begin("grown", path);
	if (truncate(path, 100001) < 0)
		bail("truncate: %m");
	is_int(L_FAILED, fill_begun(), "a file that grew is refused");
	is_int(EBUSY, kit.error, "the error of a file that grew is EBUSY");
	has_str("it had 100000 bytes, now it has 100001", kit.text,
		"the error has the old and the new size");
	close(fd);

	fd = begin("written", path);
	kit_loader_file("written", 100000);
	is_int(L_FAILED, fill_begun(),
		"a file that was written anew is refused");
	has_str("changed while it was being read: its mtime", kit.text,
		"the error names the changed mtime");
	close(fd);

	fd = begin("mode", path);
	chmod(path, 0400);
	is_int(L_FAILED, fill_begun(), "a file whose inode changed is refused");
	has_str("changed while it was being read: its ctime", kit.text,
		"the error names the changed ctime");
	is_int(ESTALE, kit.error,
		"the error of a file whose inode changed is ESTALE");
	close(fd);
	/* Only root could write it anew, with the next engine. */
	unlink(path);
}

static void is_another(void)
{
	char path[4300], next[4300];
	int fd;

	fd = begin("replaced", path);
	snprintf(next, sizeof(next), "%s", kit_loader_file("next", 100000));
	if (rename(next, path) < 0)
		bail("rename: %m");
	is_int(L_FAILED, fill_begun(), "a file that was replaced is refused");
	is_int(ESTALE, kit.error,
		"the error of a file that was replaced is ESTALE");
	close(fd);
	unlink(path);

	fd = begin("shrunk", path);
	if (truncate(path, 70000) < 0)
		bail("truncate: %m");
	is_int(L_FAILED, fill_begun(), "a file that shrank is refused");
	is_int(ENODATA, kit.error,
		"the error of a file that shrank is ENODATA");
	has_str("ended at byte 70000", kit.text,
		"the error says where the file ends");
	close(fd);

	fd = begin("gone", path);
	close(fd);
	unlink(path);
	is_int(L_FAILED, fill_begun(),
		"a file that was unlinked is refused as changed");
	has_str("its ctime", kit.text,
		"the error says that the link count changed");
}

static void lie(const struct msg_fill_range *ranges, uint32_t n,
	uint64_t alloc_offset, uint64_t alloc_size, const char *words,
	const char *what)
{
	char path[4300];
	int fd = begin("lie", path), type;

	type = kit_loader_fill(&kit, jobs, alloc_offset, alloc_size, ranges, n);
	is_int(L_FAILED, type, "a lying range is refused: %s", what);
	has_str(words, kit.text, "%s: the error contains the reason", what);
	close(fd);
}

static void lies(void)
{
	const uint64_t at = KIT_FIRST, end = KIT_FIRST + KIT_SIZE;
	struct msg_fill_range many[LOAD_RANGES_MAX + 1] = {{0, 1, at}};
	struct msg_fill_range two[2] = {{0, 100, at}, {0, 100, at + 99}};

	kit_loader_wipe(&kit);
	lie(&(struct msg_fill_range) {99999, 2, at + 99999}, 1, at, 32 * PAGE,
		"not inside the file of 100000", "past the file");
	lie(&(struct msg_fill_range) {UINT64_MAX, 2, at}, 1, at, PAGE,
		"not inside the file", "a file offset that wraps");
	lie(&(struct msg_fill_range) {0, PAGE + 1, at}, 1, at, PAGE,
		"not inside the allocation", "past the allocation");
	lie(&(struct msg_fill_range) {0, 10, at}, 1, at + PAGE, PAGE,
		"not inside the allocation", "before the allocation");
	lie(&(struct msg_fill_range) {0, 10, UINT64_MAX - 4}, 1, at, PAGE,
		"not inside the allocation", "a pool offset that wraps");
	lie(&(struct msg_fill_range) {0, 10, end - PAGE}, 1, end - PAGE,
		2 * PAGE, "not inside the 3 segments", "past the segments");
	lie(&(struct msg_fill_range) {0, 10, at - PAGE}, 1, at - PAGE, 2 * PAGE,
		"not inside the 3 segments", "before the segments");
	lie(&(struct msg_fill_range) {0, 10, at}, 1, at, UINT64_MAX - 100,
		"not inside the 3 segments", "an allocation that wraps");
	lie(two, 2, at, PAGE, "ranges 0 and 1 overlap", "an overlap");
	lie(many, 0, at, PAGE, "a load of 0 ranges", "no range");
	ok(kit_loader_untouched_outside(&kit, 0, 0),
		"refused ranges write no byte of the pool");
	is_int(L_FAILED, kit_loader_fill(&kit, 999999, at, PAGE, many, 1),
		"a job with an unknown number is refused");
	is_int(ENOENT, kit.error, "the error of an unknown job is ENOENT");
}

/* Both messages are there when the loader looks: the load has begun, and more
 * is left of it than can be in flight. */
static void drop_in_mid_load(void)
{
	struct msg_fill_range range = {0, 48 * MIB, KIT_FIRST};
	const char *path = kit_loader_file("drop", 48 * MIB);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int direct = kit_loader_open_direct(path);
	uint64_t of = 0, hash;

	kit_loader_wipe(&kit);
	kit_loader_identify(&kit, ++jobs, fd, direct);
	kill(kit.pid, SIGSTOP);
	kit_loader_send_fill(&kit, jobs, KIT_FIRST, 48 * MIB, &range, 1);
	kit_loader_send_drop(&kit, jobs);
	kill(kit.pid, SIGCONT);
	is_int(L_DROPPED, kit_loader_answer(&kit, &of),
		"a job is dropped in the middle of its load");
	is_int((int64_t)jobs, (int64_t)of,
		"the answer is for the job that was sent");
	hash = kit_loader_hash(&kit);
	is_int(KIT_CANARY, kit_loader_byte(&kit, KIT_FIRST + 48 * MIB - 1),
		"the dropped load was not read to its end");
	usleep(100000);
	is_hex(hash, kit_loader_hash(&kit),
		"no byte of the pool changes after the answer");
	fd_close(direct);
	close(fd);
}

static void next_one(void)
{
	char path[4300];
	int fd = begin("next", path);

	is_int(L_DONE, fill_begun(), "the next load succeeds");
	ok(kit_loader_holds(&kit, KIT_FIRST, 100000, 0),
		"the next load has its bytes");
	is_int(L_IDENTITY, kit_loader_identify(&kit, ++jobs, fd, -1),
		"a file is identified");
	is_int(L_FAILED, kit_loader_identify(&kit, jobs, fd, -1),
		"a job with a number that is in use is refused");
	is_int(EEXIST, kit.error,
		"a job with the number of another is refused");
	is_int(L_DONE, fill_begun(), "the first job of that number ends well");
	close(fd);
}

static void closed_in_mid_load(void)
{
	struct msg_fill_range range = {0, 48 * MIB, KIT_FIRST};
	int fd =
		open(kit_loader_file("closed", 48 * MIB), O_RDONLY | O_CLOEXEC);

	kit_loader_identify(&kit, ++jobs, fd, -1);
	close(fd);
	kill(kit.pid, SIGSTOP);
	kit_loader_send_fill(&kit, jobs, KIT_FIRST, 48 * MIB, &range, 1);
	kit.sock = fd_close(kit.sock);
	kill(kit.pid, SIGCONT);
	is_int(0, kit_loader_stop(&kit),
		"a loader ends when its server goes in the middle of a load");
}

static void nonsense(void)
{
	uint64_t of;

	kit_loader_start(&kit);
	wire_send(kit.sock, WIRE_OUT(WIRE_HELLO, 0, "hello", 5));
	is_int(-EPIPE, kit_loader_answer(&kit, &of),
		"a client's message ends the loader");
	is_int(1, kit_loader_stop(&kit),
		"the loader ends with a status after a client's message");
	kit_loader_start(&kit);
	wire_send(kit.sock, WIRE_OUT(L_DROP, 0, "short", 5));
	is_int(-EPIPE, kit_loader_answer(&kit, &of),
		"half a message ends the loader");
	is_int(1, kit_loader_stop(&kit),
		"the loader ends with a status after half a message");
}

static void with_engine(const char *engine)
{
	if (!kit_loader_engine(engine)) {
		skip(TESTS_EACH, "%s does not start here", engine);
		return;
	}
	diag("%s", engine);
	kit_loader_start(&kit);
	no_files();
	is_written();
	is_another();
	lies();
	drop_in_mid_load();
	next_one();
	closed_in_mid_load();
	nonsense();
}

/* Each load is told why; the loader lives. */
static void no_engine(void)
{
	char path[4300];
	int fd;

	setenv("TARN_ENGINE", "steam", 1);
	kit_loader_start(&kit);
	fd = begin("steam", path);
	is_int(L_FAILED, fill_begun(), "a loader with an unknown engine fails");
	has_str("steam", kit.text, "the error names the unknown engine");
	close(fd);
	is_int(0, kit_loader_stop(&kit),
		"the loader ends when its socket is closed");
}

int main(void)
{
	with_engine("threads");
	with_engine("io_uring");
	no_engine();
	kit_loader_clean();
	return done(141);
}
