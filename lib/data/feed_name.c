// SPDX-License-Identifier: MIT
/*
 * The names of a feed's channels: NAME/HASH and NAME/HASH/turn, where the hash
 * is of all that decides what its items contain. So processes of different
 * configurations never share a channel, whatever they do at the same moment; the
 * one that comes later finds the other's name, and is refused.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/data/key.h"
#include "lib/data/feed.h"

/* How often, and after how many milliseconds, one looks again whether the
 * processes of another configuration are gone. Those that were killed have left
 * when the daemon has seen it. */
enum { LOOKS = 100, LOOK_MS = 10 };

enum { HASH_DIGITS = 32 };

static void hash_of(const struct feed *s, uint64_t ret[2])
{
	const struct tarn_layout *l = &s->form->tokens;
	const uint64_t words[] = {1, /* of what items are made of */
		s->options.batch, s->options.first, s->options.n,
		s->form->parts, s->form->seq_len, s->form->sample_bytes,
		(uint64_t)l->dtype, (uint64_t)l->ndim,
		(uint64_t)s->data->options.pad};

	tarn_data_hash(s->data, ret);
	data_hash(words, sizeof(words), ret);
	data_hash(l->shape + 1, (size_t)(l->ndim - 1) * sizeof(*l->shape), ret);
}

static int make_name(struct feed *s)
{
	uint64_t hash[2];

	hash_of(s, hash);
	if (asprintf(&s->name, "%s/%016" PRIx64 "%016" PRIx64, s->options.name,
		    hash[0], hash[1]) >= 0)
		return 0;
	s->name = NULL;
	return tarn_fail_constant(ENOMEM, "loader: no memory for a name");
}

/* ---- other configurations ------------------------------------------------------ */

struct search {
	struct feed *feed;
	size_t stem; /* of names, up to the hash */
	char found[1100];
};

static int look_at(void *arg, const char *name)
{
	struct search *search = arg;
	const char *hash = name + search->stem;

	if (strspn(hash, "0123456789abcdef") != HASH_DIGITS ||
		hash[HASH_DIGITS] || !strcmp(name, search->feed->name))
		return 0;
	snprintf(search->found, sizeof(search->found), "%s", name);
	return 1;
}

/* 1: the channel has someone. Names of those that are gone end with them. */
static int in_use(struct feed *s, const char *name)
{
	struct tarn_channel_info info;
	tarn_channel *channel;
	int r = tarn_channel_open(s->store, name, NULL, &channel);

	if (r < 0)
		return r == -ENOENT || r == -ESTALE ? 0 : r;
	r = tarn_channel_info(channel, &info);
	if (r >= 0)
		r = info.producers + info.consumers > 0;
	tarn_channel_unref(channel);
	return r;
}

/* 1: another configuration has the name. */
static int find_other(struct feed *s)
{
	_cleanup_free_ char *prefix = NULL;
	struct search search = {.feed = s};
	int r;

	if (asprintf(&prefix, "%s/", s->options.name) < 0) {
		prefix = NULL;
		return tarn_fail_constant(
			ENOMEM, "loader: no memory for a name");
	}
	search.stem = strlen(prefix);
	r = tarn_channel_list(s->store, prefix, look_at, &search);
	return r == 1 ? in_use(s, search.found) : r;
}

static int refuse_others(struct feed *s)
{
	const struct timespec time = {.tv_nsec = LOOK_MS * 1000000};
	int r = find_other(s);

	for (int i = 0; r == 1 && i < LOOKS; i++) {
		nanosleep(&time, NULL);
		r = find_other(s);
	}
	if (r == 1)
		return tarn_fail(EMEDIUMTYPE,
			"loader: '%.200s' is in use by processes with another "
			"dataset, global batch, ranks of the node, dtype or "
			"parts; open it with theirs, or by another name",
			s->options.name);
	return r;
}

/* ---- channels -------------------------------------------------------------------- */

static int open_turn(struct feed *s)
{
	const struct tarn_channel_options options = {.mode = TARN_CHANNEL_QUEUE,
		.slots = 1,
		.slot_bytes = 4096,
		.tensors = 1,
		.flags = TARN_CHANNEL_EPHEMERAL};
	_cleanup_free_ char *name = NULL;

	if (asprintf(&name, "%s/turn", s->name) < 0) {
		name = NULL;
		return tarn_fail_constant(
			ENOMEM, "loader: no memory for a name");
	}
	return tarn_channel_open(s->store, name, &options, &s->turn);
}

static int open_items(struct feed *s)
{
	struct tarn_channel_options options = {.mode = TARN_CHANNEL_BROADCAST,
		.slots = s->options.slots,
		.tensors = BATCH_TENSORS + 1,
		.flags = TARN_CHANNEL_EPHEMERAL | TARN_CHANNEL_SPARSE};
	struct tarn_channel_info info;
	int r = batch_size(s->form, s->options.n, &options.slot_bytes);

	if (r >= 0)
		r = tarn_channel_open(s->store, s->name, &options, &s->channel);
	if (r >= 0)
		r = tarn_channel_info(s->channel, &info);
	if (r >= 0 && (info.slot_bytes < options.slot_bytes ||
			      info.tensors < options.tensors))
		r = tarn_fail(EMEDIUMTYPE,
			"loader: channel '%.300s' was made by another program: "
			"its slots have %llu bytes, and %llu are needed",
			s->name, (unsigned long long)info.slot_bytes,
			(unsigned long long)options.slot_bytes);
	return r;
}

void feed_close_channels(struct feed *s)
{
	s->channel = tarn_channel_unref(s->channel);
	s->turn = tarn_channel_unref(s->turn);
}

/* It ends with its last participant, once there was one. One that was made, and in
 * which nobody took part, would stay for ever. */
static void end_unused(tarn_channel *channel)
{
	struct tarn_channel_info info;

	if (channel && tarn_channel_info(channel, &info) >= 0 &&
		!info.unlinked && !info.producers && !info.consumers &&
		tarn_channel_join(channel, TARN_CHANNEL_CONSUMER) >= 0)
		tarn_channel_leave(channel, TARN_CHANNEL_CONSUMER);
}

void feed_end_channels(struct feed *s)
{
	end_unused(s->channel);
	end_unused(s->turn);
	feed_close_channels(s);
}

int feed_open_channels(struct feed *s)
{
	int r = s->name ? 0 : make_name(s);

	feed_close_channels(s);
	/* First, so that one that is refused makes none; and again, since another
	 * may have come meanwhile. */
	if (r >= 0)
		r = refuse_others(s);
	if (r >= 0)
		r = open_items(s);
	if (r >= 0)
		r = open_turn(s);
	if (r >= 0)
		r = refuse_others(s);
	s->cursor = 0;
	s->passed = false;
	if (r < 0)
		feed_end_channels(s);
	return r;
}
