/* SPDX-License-Identifier: MIT */
/*
 * tarn channel tail: each item as it is published. The command shows items and
 * does not receive them: consumers get all their items, and a producer that is
 * faster than the terminal is not held up; items that were missed are counted.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/channel.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/live.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/store.h"
#include "cli/text.h"
#include "cli/size.h"

/* So soon an end is noticed where nothing is published. */
#define SLICE_MS 250
#define SLICES 4

#define TAG_TEXT_MAX (2 * TARN_CHANNEL_TAG_MAX + 1)

/* "0a1b", for what is not to be read. */
static const char *tag_hex(
	const struct tarn_channel_seen *seen, char buf[TAG_TEXT_MAX])
{
	for (uint32_t i = 0; i < seen->tag_size; i++)
		snprintf(buf + (size_t)2 * i, 3, "%02x", seen->tag[i]);
	buf[2 * seen->tag_size] = '\0';
	return buf;
}

/* The tag as a text; NULL: it is none. */
static const char *tag_text(
	const struct tarn_channel_seen *seen, char buf[TAG_TEXT_MAX])
{
	memcpy(buf, seen->tag, seen->tag_size);
	buf[seen->tag_size] = '\0';
	return strlen(buf) == seen->tag_size && text_is_plain(buf) ? buf : NULL;
}

static int print_json(const struct tarn_channel_seen *seen)
{
	json_t *object = must(json_object());
	char buf[TAG_TEXT_MAX];
	const char *tag = tag_text(seen, buf);

	json_put(object, "position", json_u64(seen->position));
	json_put(object, "bytes", json_u64(seen->bytes));
	json_put(object, "tensors", json_u64(seen->tensors));
	json_put(object, "tag", tag ? json_text(tag) : json_null());
	json_put(object, "tag_hex", json_text(tag_hex(seen, buf)));
	return json_print(object);
}

static void print(const struct tarn_channel_seen *seen)
{
	char bytes[SIZE_TEXT_MAX], buf[TAG_TEXT_MAX];
	const char *tag = tag_text(seen, buf);

	printf("%10" PRIu64 "  %11s  %u tensor%s", seen->position,
		size_text((double)seen->bytes, bytes), seen->tensors,
		seen->tensors == 1 ? "" : "s");
	if (seen->tag_size && tag)
		printf("  \"%s\"", tag);
	else if (seen->tag_size)
		printf("  0x%s", tag_hex(seen, buf));
	putchar('\n');
}

/* Lines of JSON tell by their positions. */
static void print_missed(uint64_t n)
{
	printf("... %" PRIu64 " item%s went by too fast\n", n,
		n == 1 ? "" : "s");
}

/* An item, or the end; after a second without any it checks that the daemon is
 * still there, without which no producer can join. */
static int next_item(tarn_store *store, tarn_channel *channel, uint64_t *cursor,
	struct tarn_channel_seen *ret)
{
	int r = -ETIMEDOUT;

	for (int i = 0; i < SLICES && r == -ETIMEDOUT && !live_ended(); i++)
		r = tarn_channel_watch(channel, cursor, SLICE_MS, ret);
	if (r == -ETIMEDOUT && channel_ask(store) != EXIT_DONE)
		return -ECONNRESET;
	if (r < 0 && r != -ETIMEDOUT && r != -EINTR && r != -EPIPE)
		print_error();
	return r;
}

static int follow(
	tarn_store *store, tarn_channel *channel, uint64_t count, bool json)
{
	struct tarn_channel_seen seen;
	uint64_t cursor = 0, next = 0, shown = 0;
	int r;

	live_begin();
	while (!live_ended() && (!count || shown < count)) {
		r = next_item(store, channel, &cursor, &seen);
		if (r == -ETIMEDOUT || r == -EINTR)
			continue;
		if (r < 0)
			return r == -EPIPE ? EXIT_DONE : EXIT_FAILED;
		if (seen.tag_size > TARN_CHANNEL_TAG_MAX)
			return print_failure(
				"a tag of %u bytes: the ring makes "
				"no sense",
				seen.tag_size);
		if (shown++ && seen.position > next && !json)
			print_missed(seen.position - next);
		next = seen.position + 1;
		if (json)
			print_json(&seen);
		else
			print(&seen);
		if (fflush(stdout) == EOF)
			break;
	}
	return EXIT_DONE;
}

static int tail(const char *name, const char *socket, uint64_t count, bool json)
{
	_cleanup_store_ tarn_store *store = NULL;
	_cleanup_channel_ tarn_channel *channel = NULL;

	if (cli_store_need(socket, &store) != EXIT_DONE ||
		channel_find(store, name, &channel) != EXIT_DONE)
		return EXIT_FAILED;
	return follow(store, channel, count, json);
}

int channel_tail(int argc, char **argv)
{
	const char *socket = NULL, *items = NULL;
	bool json = false;
	const struct option_row rows[] = {{.name = "count",
						  .letter = 'n',
						  .value = "N",
						  .ret_text = &items,
						  .help = "end after N items"},
		{.name = "json",
			.letter = 'j',
			.ret_flag = &json,
			.help = "print a JSON object for each"},
		OPTION_SOCKET(&socket), OPTION_POOL, {0}};
	const struct usage usage = {.verb = "channel tail",
		.arguments = "[OPTION]... NAME",
		.about = "Each item as it is published: position, size, "
			 "tensors, tag. None is taken from\nthe consumers. "
			 "Until the channel is closed.",
		.options = rows,
		.args_min = 1,
		.args_max = 1};
	uint64_t count = 0;
	char **args;
	int n, r;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r == OPTIONS_DONE)
		r = option_count(&usage, "count", items, &count);
	return r == OPTIONS_DONE ? tail(args[0], socket, count, json) : r;
}
