/* SPDX-License-Identifier: MIT */
/* Channels, as the verbs below "tarn channel" use them: looked at, and closed,
 * by a process that does not take part. */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include <tarn/channel.h>

#include "base/cleanup.h"
#include "cli/verbs.h"

DEFINE_CLEANUP(tarn_channel *, tarn_channel_unref);
#define _cleanup_channel_ _cleanup_(tarn_channel_unrefp)

/* The verbs of "tarn channel". */
extern const struct verb channel_verbs[];

int channel_ls(int argc, char **argv);
int channel_stat(int argc, char **argv);
int channel_tail(int argc, char **argv);
int channel_top(int argc, char **argv);
int channel_close(int argc, char **argv);
int channel_rm(int argc, char **argv);

/* The channel of that name. EXIT_DONE, or EXIT_FAILED after saying why, and
 * what may have been meant. */
int channel_find(tarn_store *store, const char *name, tarn_channel **ret);

/* Is the daemon still there? Participants go on without it, but no process can
 * join any more. EXIT_DONE, or EXIT_FAILED after an error message. */
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

/* The state of a channel at a time, and its rates since another time. */
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

/* It has no participants. */
static inline bool channel_is_idle(const struct tarn_channel_info *info)
{
	return !info->producers && !info->consumers;
}

/* reading, ready, filling, free: as a gauge has them */
void channel_counts(const struct tarn_channel_info *info, uint32_t *ret);

json_t *channel_json(const char *name, const struct tarn_channel_info *info);
