/* SPDX-License-Identifier: MIT */
/*
 * One event, one line, one write; and none at all where that would wait: a
 * terminal that was stopped with ^S, or a pipe whose reader hangs, must not
 * stop a daemon that many wait for.
 */
#include "daemon/log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static const char *log_who = "keeper";

void log_role(const char *role)
{
	log_who = role;
}

void log_event(const char *fmt, ...)
{
	struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
	char line[2048];
	va_list ap;
	int n, m;

	n = snprintf(
		line, sizeof(line), "tarnd[%d]: %s: ", (int)getpid(), log_who);
	va_start(ap, fmt);
	m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	n += m < (int)sizeof(line) - n - 2 ? m : (int)sizeof(line) - n - 2;
	/* What a client named may hold anything; a line stays a line. */
	for (int i = 0; i < n; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 127)
			line[i] = '?';
	line[n++] = '\n';
	/* A pipe that is ready takes a page, which is more than a line. */
	if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT))
		return;
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* nobody is left to tell */
}
