/* SPDX-License-Identifier: MIT */
/*
 * A daemon in a real memory cgroup of 256 MiB gets a load of 512. Taking the
 * memory would mean a SIGKILL for the keeper and the end of all tensors;
 * instead that one load is refused, with the limit's name, and all else
 * continues.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/cgroup.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define MIB (1ull << 20)

static int load(struct raw *raw, const char *path, uint64_t size)
{
	struct order order = {0};
	int fd = opened(path), direct = opened_direct(path), type;

	order_range(&order, 0, size, 0);
	order_bytes(&order, "large", (int64_t)size);
	type = order_load(&order, raw, fd, direct);
	fd_close(fd);
	fd_close(direct);
	return type;
}

static int inside(const char *sparse)
{
	/* Larger than the group: the budget shall not be what refuses. */
	const char *const args[] = {"--idle", "1", "--budget", "2G", NULL};
	struct witness witness;
	struct daemon daemon;
	struct raw raw;

	cgroup_enter();
	daemon_start(&daemon, "s", args);
	witness_begin(&witness, &daemon);
	raw_open(&raw, daemon.socket);
	is_int(WIRE_ERROR, load(&raw, sparse, 512 * MIB),
		"a load of 512 MiB in a group of 256 MiB is refused");
	is_int(ENOSPC, raw.error, "the error of the refused load is ENOSPC");
	has_str(cgroup_is_v1() ? "memory.limit_in_bytes" : "memory.max",
		raw.text, "the error names the group's limit");
	has_str("256 MiB", raw.text,
		"the error has the size of the cgroup's limit");
	witness_is_served(&witness, "a load was refused");
	is_int(0, cgroup_kills(), "no process of the group was killed");
	is_int(WIRE_LOADED, load(&raw, sparse, 64 * MIB),
		"a load of 64 MiB in a group of 256 MiB succeeds");
	raw_send(&raw, WIRE_REMOVE, "large", 5, NULL, 0);
	is_int(WIRE_DONE, raw_receive(&raw, RAW_PATIENCE_MS),
		"the loaded name is removed");
	raw_close(&raw);
	witness_end(&witness);
	is_int(0, daemon_stop(&daemon), "the daemon ends without an error");
	is_int(0, cgroup_kills(),
		"no process of the group was killed until the end");
	return done(18);
}

int main(void)
{
	const char *sparse = made_file("sparse", 0, 1);
	int status = -1;
	pid_t pid;

	if (truncate(sparse, (off_t)(512 * MIB)) < 0)
		bail("%s: %m", sparse);
	if (!cgroup_make(256 * MIB)) {
		remove_files();
		skip_all("no memory cgroup can be made here (it needs root, "
			 "and the controller)");
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		exit(inside(sparse));
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (!cgroup_remove())
		bail("the group is left behind: %m");
	remove_files();
	if (!WIFEXITED(status))
		bail("the process in the group: status %d", status);
	return WEXITSTATUS(status);
}
