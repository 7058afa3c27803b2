/* SPDX-License-Identifier: MIT */
/* Channels, as the verbs below "tarn channel" meet them: looked at, and ended,
 * by somebody who takes no part. */
#pragma once

#include <jansson.h>

#include <tarn/channel.h>

#include "base/cleanup.h"

DEFINE_CLEANUP(tarn_channel *, tarn_channel_unref);
#define _cleanup_channel_ _cleanup_(tarn_channel_unrefp)

int channel_ls(int argc, char **argv);
int channel_stat(int argc, char **argv);
int channel_tail(int argc, char **argv);
int channel_top(int argc, char **argv);
int channel_close(int argc, char **argv);
int channel_rm(int argc, char **argv);

/* The channel of that name. EXIT_DONE, or EXIT_FAILED after saying why, and
 * what may have been meant. */
int channel_find(tarn_store *store, const char *name, tarn_channel **ret);

/* Is the daemon still there? Who takes part goes on without it, but nobody can
 * join any more. EXIT_DONE, or EXIT_FAILED after saying that it is not. */
int channel_ask(tarn_store *store);

/* Names, sorted. Begins as zeroes. */
struct channel_names {
	char **at;
	size_t n, size;
};

void channel_names_free(struct channel_names *names);
#define _cleanup_names_ __attribute__((__cleanup__(channel_names_free)))

/* Those that begin with prefix (NULL: all). 0, or -errno after saying why. */
int channel_names_list(
	struct channel_names *names, tarn_store *store, const char *prefix);

/* What it is doing, at a time; and how fast, since another time. */
struct channel_sample {
	struct tarn_channel_info info;
	int64_t at; /* live_now() */
};

struct channel_rates {
	double published, received, bytes; /* a second */
};

/* 0, or the library's -errno. */
int channel_sample(tarn_channel *channel, struct channel_sample *ret);
struct channel_rates channel_rates(
	const struct channel_sample *before, const struct channel_sample *now);

/* "queue", "broadcast" */
const char *channel_mode(const struct tarn_channel_info *info);

/* reading, ready, filling, free: as a gauge has them */
void channel_counts(const struct tarn_channel_info *info, uint32_t *ret);

json_t *channel_json(const char *name, const struct tarn_channel_info *info);
