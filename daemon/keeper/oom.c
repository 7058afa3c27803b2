/* SPDX-License-Identifier: MIT */
/*
 * The keeper forks a server or a loader that is killed again, and nothing is
 * lost; if the keeper is killed, all memory is lost. So the keeper asks the OOM
 * killer to take it last, for which it needs a right that only root has.
 * Without that right its children get a higher score instead: each may raise
 * its own score, but cannot open the file for it once it is undumpable. The
 * keeper opened its own file before that, and raises its score while it forks,
 * so that the child inherits the higher one.
 */
#include "daemon/keeper/oom.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/loop/log.h"

#define PATH "/proc/self/oom_score_adj"
#define PROTECTED (-900) /* -1000 would make it unkillable */
#define OFFERED 1000
/* Thousandths of all memory. Picked: enough to tell a small server from a
 * small keeper, not enough to have it killed in place of what is large. */
#define CHILD 3

static int keeper_fd = -1; /* the keeper's own score */
static bool lowered;
static int before;

static int put(int fd, int score)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d", MIN(score, OFFERED));

	return pwrite(fd, text, (size_t)n, 0) == n ? 0 : -errno;
}

static int set(int score)
{
	_cleanup_fd_ int fd = open(PATH, O_WRONLY | O_CLOEXEC);

	return fd >= 0 ? put(fd, score) : -errno;
}

static void complain(int r)
{
	if (r < 0)
		log_warning("oom_score_failed",
			log_text("error", tarn_errno_text(r)));
}

void oom_protect(void)
{
	char text[32];

	if (fd_read_text(PATH, text, sizeof(text)) <= 0)
		return;
	before = atoi(text);
	keeper_fd = open(PATH, O_WRONLY | O_CLOEXEC);
	/* Without the right it stays as it is, which is no fault. */
	lowered = before > PROTECTED && keeper_fd >= 0 &&
		  put(keeper_fd, PROTECTED) == 0;
}

struct oom_score oom_score(void)
{
	return (struct oom_score) {.lowered = lowered, .before = before};
}

void oom_reopen(void)
{
	keeper_fd = open(PATH, O_WRONLY | O_CLOEXEC);
}

void oom_adopt(const struct oom_score *score)
{
	lowered = score->lowered;
	before = score->before;
}

void oom_before_fork(void)
{
	if (!lowered && keeper_fd >= 0)
		complain(put(keeper_fd, before + CHILD));
}

void oom_after_fork(void)
{
	if (!lowered && keeper_fd >= 0)
		complain(put(keeper_fd, before));
}

void oom_be_child(void)
{
	if (lowered)
		complain(set(before + CHILD));
}

void oom_offer(void)
{
	int r = set(OFFERED);

	/* An undumpable process that is not root may not even raise its own. */
	if (r != -EACCES)
		complain(r);
}
