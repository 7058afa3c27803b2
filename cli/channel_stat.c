/* SPDX-License-Identifier: MIT */
/* tarn channel stat: how one channel fares, once or again and again. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/checked.h"
#include "cli/channel.h"
#include "cli/cli.h"
#include "cli/gauge.h"
#include "cli/json.h"
#include "cli/live.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/store.h"
#include "cli/text.h"
#include "cli/size.h"

#define BAR 32u /* columns */

/* Prints a state; before is the last one, or NULL. */
struct said {
	const char *name;
	const struct channel_sample *before, *now;
};

static void print_slots(const struct tarn_channel_info *info)
{
	uint32_t counts[GAUGE_KINDS];
	char bar[GAUGE_COLUMNS_MAX + 1];

	channel_counts(info, counts);
	gauge_slots(bar, (int)MIN(info->slots, BAR), counts);
	printf("  slots      [%s]\n"
	       "             = %u being read, # %u ready, + %u being filled, "
	       ". %u free\n",
		bar, info->reading, info->ready, info->filling, info->free);
}

static void print_rates(const struct said *said)
{
	struct channel_rates rates = channel_rates(said->before, said->now);
	char bytes[SIZE_TEXT_MAX];

	printf("  a second   %.1f published, %.1f received, %s\n",
		rates.published, rates.received, size_text(rates.bytes, bytes));
}

static void print(const struct said *said)
{
	const struct tarn_channel_info *info = &said->now->info;
	char bytes[SIZE_TEXT_MAX];

	text_put(stdout, said->name);
	printf(": %s, %u slot%s of %s, items of up to %u tensor%s%s\n",
		channel_mode(info), info->slots, info->slots == 1 ? "" : "s",
		size_text((double)info->slot_bytes, bytes), info->tensors,
		info->tensors == 1 ? "" : "s", info->closed ? "; closed" : "");
	print_slots(info);
	printf("  published  %" PRIu64 " items", info->published);
	if (info->bytes_published)
		printf(", %s", size_text((double)info->bytes_published, bytes));
	printf("\n  received   %" PRIu64 "\n", info->received);
	printf("  producers  %u, consumers: %u\n", info->producers,
		info->consumers);
	if (said->before)
		print_rates(said);
}

static int print_json(const struct said *said)
{
	json_t *object = channel_json(said->name, &said->now->info);
	struct channel_rates rates;

	if (said->before) {
		rates = channel_rates(said->before, said->now);
		json_put(object, "published_per_second",
			must(json_real(rates.published)));
		json_put(object, "received_per_second",
			must(json_real(rates.received)));
		json_put(object, "bytes_per_second",
			must(json_real(rates.bytes)));
	}
	return json_print(object);
}

static int print_stat(const struct said *said, bool json)
{
	if (json)
		return print_json(said);
	print(said);
	return EXIT_DONE;
}

/* Until it is closed and empty, when nothing will change any more, or the user
 * ends it. */
static bool is_over(const struct tarn_channel_info *info)
{
	return info->closed && !info->ready && !info->reading;
}

static int watch(tarn_store *store, tarn_channel *channel, const char *name,
	bool json, double seconds)
{
	bool clear = !json && isatty(STDOUT_FILENO);
	struct channel_sample samples[2];
	struct said said = {.name = name};

	live_begin();
	for (unsigned i = 0;; i++) {
		said.now = &samples[i % 2];
		if (channel_sample(channel, &samples[i % 2]) < 0)
			return print_error();
		if (clear)
			fputs("\033[H\033[J", stdout);
		if (print_stat(&said, json) != EXIT_DONE)
			return EXIT_FAILED;
		if (!clear && !json)
			putchar('\n');
		if (fflush(stdout) == EOF || is_over(&said.now->info) ||
			!live_nap(seconds))
			return EXIT_DONE;
		if (channel_ask(store) != EXIT_DONE)
			return EXIT_FAILED;
		said.before = said.now;
	}
}

static int stat_name(
	const char *name, const char *socket, bool json, const double *seconds)
{
	_cleanup_store_ tarn_store *store = NULL;
	_cleanup_channel_ tarn_channel *channel = NULL;
	struct channel_sample now;
	struct said said = {.name = name, .now = &now};

	if (cli_store_need(socket, &store) != EXIT_DONE ||
		channel_find(store, name, &channel) != EXIT_DONE)
		return EXIT_FAILED;
	if (seconds)
		return watch(store, channel, name, json, *seconds);
	if (channel_sample(channel, &now) < 0)
		return print_error();
	return print_stat(&said, json);
}

int channel_stat(int argc, char **argv)
{
	const char *socket = NULL, *every = NULL;
	bool json = false;
	const struct option_row rows[] = {OPTION_JSON(&json),
		OPTION_SOCKET(&socket), OPTION_POOL,
		{.name = "watch",
			.letter = 'w',
			.value = "SECONDS",
			.ret_text = &every,
			.help = "tell again after so many seconds, and the "
				"rates, until\nthe channel ends"},
		{0}};
	const struct usage usage = {.verb = "channel stat",
		.arguments = "[OPTION]... NAME",
		.about = "The state of a channel: its slots, how many items "
			 "went through it, and its\nparticipants.",
		.options = rows,
		.args_min = 1,
		.args_max = 1};
	double seconds = 0;
	char **args;
	int n, r;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r == OPTIONS_DONE)
		r = option_seconds(&usage, "watch", every, &seconds);
	if (r != OPTIONS_DONE)
		return r;
	return stat_name(args[0], socket, json, every ? &seconds : NULL);
}
