/* SPDX-License-Identifier: MIT */
/*
 * tarn channel: shows and ends channels. A process that only looks never joins,
 * so no producer waits for it and it gets no item.
 */
#include "cli/channel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/report.h>

#include "cli/cli.h"
#include "cli/gauge.h"
#include "cli/json.h"
#include "cli/live.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/store.h"
#include "cli/suggest.h"
#include "cli/verbs.h"

const struct verb channel_verbs[] = {
	{.name = "close",
		.run = channel_close,
		.help = "close channels for all participants",
		.destroys = true},
	{.name = "ls", .run = channel_ls, .help = "list channels"},
	{.name = "rm",
		.run = channel_rm,
		.help = "remove channels' names",
		.destroys = true},
	{.name = "stat",
		.run = channel_stat,
		.help = "show the state of a channel"},
	{.name = "tail",
		.run = channel_tail,
		.help = "show items as they are published"},
	{.name = "top",
		.run = channel_top,
		.help = "watch depth and rate of channels"},
	{0},
};

/* ---- one of them --------------------------------------------------- */

static int offer(void *arg, const char *name)
{
	suggest_offer(arg, name);
	return 0;
}

static void hint(tarn_store *store, const char *name, int r)
{
	uint64_t version;
	struct suggest suggest;

	/* Else it is no name at all. */
	if (r == -EINVAL && tarn_store_version(store, name, &version) >= 0) {
		print_hint("'tarn info %s' shows what it is", name);
	} else if (r == -ENOENT) {
		suggest_begin(&suggest, name);
		if (tarn_channel_list(store, NULL, offer, &suggest) >= 0)
			suggest_print(&suggest,
				"'tarn channel ls' lists those that "
				"there are");
	}
}

int channel_find(tarn_store *store, const char *name, tarn_channel **ret)
{
	int r = tarn_channel_open(store, name, NULL, ret);

	if (r >= 0)
		return EXIT_DONE;
	print_error();
	hint(store, name, r);
	return EXIT_FAILED;
}

int channel_ask(tarn_store *store)
{
	struct tarn_report *report;

	if (tarn_store_report(store, &report) < 0)
		return print_error();
	tarn_report_free(report);
	return EXIT_DONE;
}

/* ---- all of them --------------------------------------------------- */

void channel_names_free(struct channel_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->at[i]);
	free(names->at);
	*names = (struct channel_names) {0};
}

static int add(void *arg, const char *name)
{
	struct channel_names *names = arg;

	if (names->n == names->size) {
		names->size = names->size ? 2 * names->size : 16;
		names->at = must(reallocarray(
			names->at, names->size, sizeof(names->at[0])));
	}
	names->at[names->n++] = must(strdup(name));
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

int channel_names_list(
	struct channel_names *names, tarn_store *store, const char *prefix)
{
	int r = tarn_channel_list(store, prefix, add, names);

	if (r < 0) {
		print_error();
		return r;
	}
	if (names->n)
		qsort(names->at, names->n, sizeof(names->at[0]), by_name);
	return 0;
}

/* ---- what is known of one ------------------------------------------ */

int channel_sample(tarn_channel *channel, struct channel_sample *ret)
{
	ret->at = live_now();
	return tarn_channel_info(channel, &ret->info);
}

static double rate(uint64_t before, uint64_t now, double seconds)
{
	return now > before && seconds > 0 ? (double)(now - before) / seconds
					   : 0;
}

struct channel_rates channel_rates(
	const struct channel_sample *before, const struct channel_sample *now)
{
	const struct tarn_channel_info *a = &before->info, *b = &now->info;
	double s = (double)(now->at - before->at) / 1e9;

	return (struct channel_rates) {
		.published = rate(a->published, b->published, s),
		.received = rate(a->received, b->received, s),
		.bytes = rate(a->bytes_published, b->bytes_published, s)};
}

const char *channel_mode(const struct tarn_channel_info *info)
{
	return info->mode == TARN_CHANNEL_BROADCAST ? "broadcast" : "queue";
}

void channel_counts(const struct tarn_channel_info *info, uint32_t *ret)
{
	ret[GAUGE_READING] = info->reading;
	ret[GAUGE_READY] = info->ready;
	ret[GAUGE_FILLING] = info->filling;
	ret[GAUGE_FREE] = info->free;
}

json_t *channel_json(const char *name, const struct tarn_channel_info *info)
{
	json_t *object = must(json_object());

	json_put(object, "name", json_text(name));
	json_put(object, "mode", json_text(channel_mode(info)));
	json_put(object, "slots", json_u64(info->slots));
	json_put(object, "slot_bytes", json_u64(info->slot_bytes));
	json_put(object, "tensors", json_u64(info->tensors));
	json_put(object, "free", json_u64(info->free));
	json_put(object, "filling", json_u64(info->filling));
	json_put(object, "ready", json_u64(info->ready));
	json_put(object, "reading", json_u64(info->reading));
	json_put(object, "producers", json_u64(info->producers));
	json_put(object, "consumers", json_u64(info->consumers));
	json_put(object, "closed", json_boolean(info->closed));
	json_put(object, "idle", json_boolean(channel_is_idle(info)));
	json_put(object, "published", json_u64(info->published));
	json_put(object, "received", json_u64(info->received));
	json_put(object, "bytes_published", json_u64(info->bytes_published));
	return object;
}

/* ---- the verb ------------------------------------------------------ */

int cmd_channel(int argc, char **argv)
{
	return verbs_run(channel_verbs, "channel",
		"Shows, closes and removes channels. Looking at one takes no "
		"item and delays\nno process.",
		argc, argv);
}
