/* SPDX-License-Identifier: MIT */
/*
 * The command beside channels: what $TARN writes as it runs, and an item that
 * it may see.
 */
#pragma once

#include <stdio.h>
#include <sys/types.h>

#include <tarn/tarn.h>

#include "base/cleanup.h"

/* One that is running: what it writes, on both streams, and who it is. */
struct running {
	pid_t pid;
	FILE *f;
};

/* What was written last. */
extern char kit_cli_out[1 << 16];

/* A line for the shell, which is to exec the command. */
struct running kit_cli_start(const char *line);
/* Waits for its end: its exit status, or 1000 and the signal. */
int kit_cli_status(struct running *running);
/* Its next line, in kit_cli_out; an empty one at its end. */
void kit_cli_next_line(struct running *running);
/* All that it writes goes to kit_cli_out; the exit status. */
int kit_cli_run(const char *fmt, ...) _printf_(1, 2);

/* A daemon of the test's own, which $TARN is to find, too. */
tarn_store *kit_cli_begin(void);
/* Ends it: its exit status. */
int kit_cli_end_daemon(void);

/* Of 4 slots of 8 KiB, for 2 tensors each. */
tarn_channel *kit_cli_make(
	tarn_store *store, const char *name, enum tarn_channel_mode mode);
/* An item of one tensor of n bytes, with that tag. */
void kit_cli_send(
	tarn_channel *channel, int64_t n, const void *tag, size_t size);
