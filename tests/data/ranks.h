/* SPDX-License-Identifier: MIT */
/* Processes that are ranks of a job, and share a loader. */
#pragma once

#include <sys/types.h>

#include "tests/data/batches.h"

enum { RANKS_BATCH = 12 };

/* Of a loader by the name "train", with global batches of RANKS_BATCH. */
struct tarn_loader_options ranks_options(uint32_t rank, uint32_t world);
/* Opened in this process. */
tarn_loader *ranks_loader(tarn_store *store, tarn_data *data,
	const struct tarn_loader_options *options);
/* From here on no process is so slow that others do not wait for it. */
void ranks_are_slow(void);

/* Set before ranks are started: where the daemon is, and what they read. */
extern const char *ranks_socket;
extern struct tarn_data_options ranks_dataset;

struct rank {
	struct tarn_loader_options options;
	pid_t pid;
	int to, from;      /* pipes */
	uint64_t position; /* that it has said last */
};

/* What a rank has said. */
struct rank_word {
	uint64_t position; /* after the last batch */
	uint32_t wrong;    /* a batch was, or did not come */
	uint32_t ended;    /* it has made its steps */
	struct tarn_loader_info info;
};

/* Starts one with options.from as its position, which opens the loader, and waits
 * until it is open. */
void rank_start(struct rank *rank);
/* Lets it make so many steps: it says something after each. */
void rank_go(struct rank *rank, uint64_t steps);
/* Waits until it has made all of them, or is dead. False: a batch was wrong, or
 * it died. */
bool rank_finish(struct rank *rank, struct rank_word *ret);
/* Waits until it has said something: false: it is dead. */
bool rank_hear(struct rank *rank, struct rank_word *ret);
/* It ends as a process should, or is killed. */
void rank_end(struct rank *rank);
void rank_kill(struct rank *rank);
