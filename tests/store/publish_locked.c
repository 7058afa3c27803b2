/* SPDX-License-Identifier: MIT */
/*
 * A client that holds the lock of a memfd's inode for as long as it likes: it
 * writes to the memfd from memory that never comes, of a file whose file
 * system does not answer. The daemon publishes that memfd, or refuses it; it
 * waits for the lock in no case, and nor does any other publication. A server
 * that dies meanwhile is replaced.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/fuse_hang.h"
#include "tests/kit/publish_msg.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define MIB (1u << 20)
#define SIZE (4 * MIB)

static struct daemon server;
static struct witness witness;
static pid_t writer; /* who holds the lock */

static int memfd(void)
{
	static char bytes[MIB];
	int fd = memfd_create("locked", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || fchmod(fd, 0644) < 0)
		bail("memfd: %m");
	for (int i = 0; i < 4; i++)
		if (fd_write_all(fd, bytes, MIB) < 0)
			bail("memfd: write");
	return fd;
}

static void hold_lock(int fd)
{
	void *never;
	int hung = opened(hang_path(HANG_READ));

	never = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, hung, 0);
	hang_arm();
	fflush(stdout);
	writer = fork();
	if (writer == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(pwrite(fd, never, 4096, 0) == 4096);
	}
	munmap(never, 4096);
	close(hung);
	if (!hang_has_caught(1))
		bail("the write does not hang");
}

/* Its answer, or 0 if none comes. */
static int publish(struct raw *raw, enum source_kind kind, int fd,
	const char *name, int patience_ms)
{
	struct publish_msg p = publish_msg_of(kind, SIZE, fd, name);
	unsigned char body[PUBLISH_MSG_MAX];
	size_t size = publish_msg_write(&p, body);
	int r;

	if (raw_send(raw, WIRE_PUBLISH, body, size, p.fds, p.n_fds) < 0)
		return 0;
	r = raw_receive(raw, patience_ms);
	if (r == WIRE_ERROR)
		diag("%s: %s", name, raw->text);
	return r > 0 ? r : 0;
}

static void publish_locked(int fd)
{
	struct raw raw;

	raw_open(&raw, server.socket);
	is_int(WIRE_PUBLISHED,
		publish(&raw, SOURCE_ADOPT, fd, "adopted", RAW_PATIENCE_MS),
		"an unsealed memfd whose inode is locked is copied");
	is_int(WIRE_PUBLISHED,
		publish(&raw, SOURCE_COPY, fd, "copied", RAW_PATIENCE_MS),
		"a sealed memfd whose inode is locked is copied");
	is_int(WIRE_ERROR,
		publish(&raw, SOURCE_MUTABLE, fd, "mutable", RAW_PATIENCE_MS),
		"a locked memfd without seals is refused as a mutable tensor");
	is_int(WIRE_ERROR,
		publish(&raw, SOURCE_CHANNEL, fd, "channel", RAW_PATIENCE_MS),
		"a locked memfd without seals is refused as a channel");
	raw_close(&raw);
}

/* From 256 KiB up they are the worker's. */
static void publish_another(const char *what)
{
	int fd = memfd();
	struct raw raw;

	raw_open(&raw, server.socket);
	is_int(WIRE_PUBLISHED,
		publish(&raw, SOURCE_COPY, fd, "another", RAW_PATIENCE_MS),
		"another client publishes memory %s", what);
	raw_close(&raw);
	close(fd);
}

int main(void)
{
	const char *why = hang_begin();
	pid_t pid;
	int fd;

	if (why) {
		remove_files();
		skip_all("no file system that hangs can be made here: %s", why);
	}
	daemon_start(&server, "s", (const char *const[]) {NULL});
	witness_begin(&witness, &server);
	fd = memfd();
	hold_lock(fd);
	publish_locked(fd);
	publish_another("while a client holds a memfd's lock");
	witness_is_served(&witness, "a client holds a memfd's lock");
	pid = server_of(&server);
	kill(pid, SIGKILL);
	server_after(&server, pid);
	publish_another("after the server's death");
	witness_is_served(&witness, "the server was killed");
	kill(writer, SIGKILL);
	hang_end();
	waitpid(writer, NULL, 0);
	close(fd);
	tarn_tensor_unref(witness.tensor);
	tarn_store_unref(witness.store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	remove_files();
	return done(9);
}
