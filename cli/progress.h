/* SPDX-License-Identifier: MIT */
/* A bar on a terminal for what takes long; nothing anywhere else. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
	bool terminal;
	bool shown;
	int64_t begun_ms, drawn_ms;
	int64_t first_ms; /* when the first bytes were seen; 0: not yet */
	uint64_t first_done;
};

/* Ctrl-C, or another signal to end, takes the bar away and ends the process. */
void progress_begin(struct progress *progress);

/* It has progress_step() say so, and ends it in progress_end(): what was begun
 * is given up in between. The second one does not wait for that. */
void progress_begin_tidily(struct progress *progress);

/* As tarn_load_options.progress has it; arg is the struct progress. */
int progress_step(void *arg, uint64_t done, uint64_t total);

/* Takes the bar away again. */
void progress_end(struct progress *progress);

/* The bar as text of at most columns columns; rate in bytes a second, 0 where
 * it is not known yet. */
void progress_line(char *buf, size_t size, int columns, uint64_t done,
	uint64_t total, double rate);
