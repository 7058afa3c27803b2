/* SPDX-License-Identifier: MIT */
/*
 * The child that makes memory is killed in the middle of it, as the OOM killer
 * would do: the load that waits for the memory fails with ENOSPC, and what was
 * made so far goes back, or a budget that holds the file once would not suffice
 * for the load after it. The same when the loader is killed that reads into
 * memory whose pages its threads still clear; but then another one loads it.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define MIB (1ull << 20)
#define SIZE (192 * MIB) /* takes a while to be made */
#define TIMES 3
#define PATIENCE_S 60.0

static struct daemon daemon_;

/* To load a file of zeros. */
static void ask(struct raw *raw)
{
	struct order order = {0};
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s/zeros", test_tmpdir());
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)SIZE) < 0)
		bail("%s: %m", path);
	unlink(path);
	order_range(&order, 0, SIZE, 0);
	if (order_send(&order, raw, fd, -1) < 0)
		bail("the load cannot be asked for");
	close(fd);
}

/* Whether the process has stopped in its work: one that has ended can be sent
 * signals, too, until it is reaped. */
static bool is_stopped(pid_t pid)
{
	double end = seconds() + PATIENCE_S;
	char path[64], text[512];
	const char *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	while (seconds() < end) {
		if (fd_read_text(path, text, sizeof(text)) <= 0)
			return false;
		p = strrchr(text, ')');
		if (!p || p[1] != ' ' || p[2] == 'Z' || p[2] == 'X')
			return false;
		if (p[2] == 'T')
			return true;
		usleep(200);
	}
	return false;
}

/* False: it was faster. */
static bool kill_populator(struct raw *raw)
{
	double end = seconds() + PATIENCE_S;

	while (seconds() < end) {
		pid_t pid = child_named(daemon_.pid, "tarn-populate");
		int heard;

		/* Then it is certain that it is not done yet. */
		if (pid > 0 && kill(pid, SIGSTOP) == 0 && is_stopped(pid)) {
			kill(pid, SIGKILL);
			return true;
		}
		heard = raw_receive(raw, 0);
		if (heard == WIRE_LOADED)
			return false;
		if (heard != -1 && heard != WIRE_LOADING)
			bail("no memory is made for the load: %s", raw->text);
	}
	bail("no memory is made for the load");
}

/* Once bytes are read, if it is not done before. */
static void kill_loader(struct raw *raw)
{
	int heard;
	pid_t pid;

	do
		heard = raw_receive(raw, (int)PATIENCE_S * 1000);
	while (heard == WIRE_LOADING && raw->loading.phase == LOADING_MEMORY);
	pid = child_named(daemon_.pid, "tarn-loader");
	if (heard == WIRE_LOADING && pid > 0)
		kill(pid, SIGKILL);
	is_int(WIRE_LOADED, heard == WIRE_LOADING ? raw_answer(raw) : heard,
		"a load whose loader is killed is done by another");
}

int main(void)
{
	const char *const args[] = {
		"--segment-size", "256M", "--budget", "256M", NULL};
	struct raw raw;

	daemon_start(&daemon_, "s", args);
	raw_open(&raw, daemon_.socket);
	for (int i = 0; i < TIMES; i++) {
		ask(&raw);
		if (!kill_populator(&raw)) {
			skip(2 * (TIMES - i),
				"192 MiB were made before that was seen");
			break;
		}
		is_int(WIRE_ERROR, raw_answer(&raw),
			"a load without memory fails");
		is_int(ENOSPC, raw.error, "ENOSPC: %s", raw.text);
	}
	ask(&raw);
	kill_loader(&raw);
	raw_close(&raw);
	raw_open(&raw, daemon_.socket);
	ask(&raw);
	is_int(WIRE_LOADED, raw_answer(&raw), "no memory was lost");
	raw_close(&raw);
	is_int(0, daemon_stop(&daemon_), "the daemon ends without an error");
	return done(2 * TIMES + 3);
}
