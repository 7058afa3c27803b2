/* SPDX-License-Identifier: MIT */
/* A bar on a terminal for work that takes long; nothing anywhere else. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarn/store.h>

struct progress_bar {
	bool terminal;
	bool shown;
	int64_t begun_ms, drawn_ms;
	int64_t first_ms; /* when the first bytes were seen; 0: not yet */
	uint64_t first_done;
	enum tarn_load_phase phase; /* 0: the work has one only */
	bool took_memory;           /* before its first byte was read */
	bool has_read;
	double share; /* of all the work; it never falls */
};

/* Ctrl-C, or another signal to end, takes the bar away and ends the process. */
void progress_begin(struct progress_bar *progress);

/* It has progress_step() say so, and ends it in progress_end(): what was begun
 * is given up in between. The second one does not wait for that. */
void progress_begin_tidily(struct progress_bar *progress);

/* For tarn_save_options.progress and its like, and for that of loads; arg is
 * the struct progress_bar. */
int progress_step(void *arg, uint64_t done, uint64_t total);
int progress_load_step(
	void *arg, enum tarn_load_phase phase, uint64_t done, uint64_t total);

/* Takes the bar away again. */
void progress_end(struct progress_bar *progress);

/* The state that a bar shows. */
struct progress_figures {
	uint64_t done, total; /* bytes, of the phase */
	const char *what;     /* behind them, or "" */
	double share;         /* of all the work, 0 to 1 */
	double rate;          /* bytes a second; 0: not known yet */
};

/* The bar as text of at most columns columns. */
void progress_line(char *buf, size_t size, int columns,
	const struct progress_figures *figures);
