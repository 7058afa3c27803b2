/* SPDX-License-Identifier: MIT */
/* See pool.h. */
#include "tests/kit/pool.h"

#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/tap.h"

/* ---- the daemon ------------------------------------------------------ */

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	if (!f || fputs(text, f) < 0 || fclose(f) != 0)
		bail("cannot write %s: %m", path);
	chmod(path, 0644);
}

static void remove_folder(void *folder)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", (char *)folder);
	if (system(command) != 0)
		diag("%s failed", command);
}

void kit_pool_configure(struct pool_kit *kit, const char *conf)
{
	if (!kit->folder[0]) {
		snprintf(kit->folder, sizeof(kit->folder), "%s",
			test_outside("pools"));
		if (chmod(kit->folder, 0755) < 0)
			bail("%s: %m", kit->folder);
	}
	snprintf(kit->conf, sizeof(kit->conf), "%s/conf", kit->folder);
	snprintf(kit->log, sizeof(kit->log), "%s/log", kit->folder);
	write_file(kit->conf, conf);
}

void kit_pool_start(struct pool_kit *kit, const char *conf)
{
	char socket[96];

	kit_pool_configure(kit, conf);
	snprintf(socket, sizeof(socket), "%s/sock", kit->folder);
	daemon_log_to(kit->log);
	daemon_start(&kit->daemon, socket,
		(const char *const[]) {"--config", kit->conf, NULL});
	daemon_log_to(NULL);
}

int kit_pool_stop(struct pool_kit *kit)
{
	int r = daemon_stop(&kit->daemon);

	remove_folder(kit->folder);
	return r;
}

bool kit_pool_logs(const struct pool_kit *kit, const char *part)
{
	return daemon_logs(kit->log, part, 0);
}

/* ---- files ----------------------------------------------------------- */

const char *kit_pool_file(const struct pool_kit *kit, const char *name,
	uint64_t size, unsigned char value, unsigned skew)
{
	static char path[160];
	char header[2048];
	uint64_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s.safetensors", kit->folder, name);
	n = (uint64_t)snprintf(header, sizeof(header),
		"{\"t\":{\"dtype\":\"U8\",\"shape\":[%llu],\"data_offsets\":"
		"[0,%llu]}}%*s",
		(unsigned long long)size, (unsigned long long)size, (int)skew,
		"");
	f = fopen(path, "we");
	if (!f || fwrite(&n, 8, 1, f) != 1 || fwrite(header, n, 1, f) != 1)
		bail("cannot write %s: %m", path);
	for (uint64_t i = 0; i < size; i++)
		putc(value, f);
	if (fclose(f) != 0)
		bail("cannot write %s: %m", path);
	chmod(path, 0644);
	return path;
}

/* ---- other users ------------------------------------------------------ */

bool kit_pool_writes(int fd)
{
	void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map != MAP_FAILED)
		munmap(map, 4096);
	return map != MAP_FAILED || pwrite(fd, "x", 1, 0) == 1;
}

bool kit_pool_writes_reopened(int fd)
{
	char path[64];
	int rw;
	bool does;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	rw = open(path, O_RDWR | O_CLOEXEC);
	does = rw >= 0 && kit_pool_writes(rw);
	fd_close(rw);
	return does;
}

bool kit_pool_is_root(void)
{
	pid_t pid;
	int status = 1;

	if (geteuid() != 0)
		return false;
	/* In a user namespace there may be no other users. */
	pid = fork();
	if (pid == 0)
		_exit(setgroups(0, NULL) < 0 ||
			setresgid(GROUP, GROUP, GROUP) < 0 ||
			setresuid(OWNER, OWNER, OWNER) < 0);
	waitpid(pid, &status, 0);
	return status == 0;
}

static void become(uint32_t uid)
{
	gid_t groups[1] = {uid == MEMBER ? GROUP : OTHER_GROUP};
	gid_t gid = uid == RELATIVE ? GROUP : OTHER_GROUP;

	if (uid == geteuid())
		return;
	if (setgroups(1, groups) < 0 || setresgid(gid, gid, gid) < 0 ||
		setresuid(uid, uid, uid) < 0)
		_exit(99);
}

pid_t kit_pool_fork(uint32_t uid)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
		become(uid);
	return pid;
}

const struct seen *kit_pool_as(const struct pool_kit *kit, uint32_t uid,
	void (*fn)(const struct pool_kit *kit, struct seen *seen, void *arg),
	void *arg)
{
	static struct seen *seen;
	int status = -1;
	pid_t pid;

	if (!seen)
		seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset(seen, 0, sizeof(*seen));
	pid = kit_pool_fork(uid);
	if (pid == 0) {
		fn(kit, seen, arg);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (status != 0)
		bail("uid %u ended with status %#x", uid, status);
	if (seen->text[0])
		diag("uid %u: %s", uid, seen->text);
	return seen;
}

void seen_error(struct seen *seen, int r)
{
	seen->r = r;
	if (r < 0)
		snprintf(seen->text, sizeof(seen->text), "%s",
			tarn_error_message());
}
