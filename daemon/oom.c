/* SPDX-License-Identifier: MIT */
/*
 * The idea: a server or a loader that is killed is forked again, and nothing
 * is lost; with the keeper goes all memory. So it asks to be taken last, which
 * root alone may ask; the children, which inherit that, ask to be taken as
 * anybody is.
 */
#include "daemon/oom.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/log.h"

#define PATH "/proc/self/oom_score_adj"
#define PROTECTED (-900) /* -1000 would make it unkillable */
#define OFFERED 1000

static bool lowered;
static int before;

static int set(int score)
{
	_cleanup_fd_ int fd = open(PATH, O_WRONLY | O_CLOEXEC);
	char text[16];
	int n = snprintf(text, sizeof(text), "%d", score);

	return fd >= 0 && write(fd, text, (size_t)n) == n ? 0 : -errno;
}

void oom_protect(void)
{
	char text[32];

	if (fd_read_text(PATH, text, sizeof(text)) <= 0)
		return;
	before = atoi(text);
	/* Without the right it stays as it is, which is no fault. */
	lowered = before > PROTECTED && set(PROTECTED) == 0;
}

void oom_restore(void)
{
	int r = lowered ? set(before) : 0;

	if (r < 0)
		log_warning("oom_score_failed",
			log_text("error", tarn_errno_text(r)));
}

void oom_offer(void)
{
	int r = set(OFFERED);

	/* Who is not root may not even raise its own, once it is undumpable. */
	if (r < 0 && r != -EACCES)
		log_warning("oom_score_failed",
			log_text("error", tarn_errno_text(r)));
}
