/* SPDX-License-Identifier: MIT */
/*
 * tarn wait: for a name to be published, or a newer version of it.
 *
 * The waiting process may come before the publisher, so a daemon is started
 * where none runs, and both use it.
 */
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/store.h"
#include "cli/text.h"

/* Milliseconds of a text in seconds; -1: without it, for ever; -2: it is
 * none. */
static int parse_timeout(const char *text)
{
	char *end;
	double s;

	if (!text)
		return -1;
	s = strtod(text, &end);
	if (end == text || *end || !(s >= 0))
		return -2;
	/* Rounded up: a little time is not none. Weeks are for ever. */
	return s >= INT_MAX / 1000 ? -1 : (int)ceil(s * 1000);
}

/* False: it is no number. */
static bool parse_version(const char *text, uint64_t *ret)
{
	char *end;

	*ret = 0;
	if (!text)
		return true;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno;
}

static json_t *wait_json(
	const char *name, uint64_t version, const tarn_tensor *tensor)
{
	const struct tarn_layout *layout = tarn_tensor_layout(tensor);
	json_t *object = must(json_object()), *shape = must(json_array());

	for (int i = 0; i < layout->ndim; i++)
		if (json_array_append_new(
			    shape, json_u64((uint64_t)layout->shape[i])) < 0)
			must(NULL);
	json_put(object, "name", json_text(name));
	json_put(object, "version", json_u64(version));
	json_put(object, "dtype", json_text(tarn_dtype_name(layout->dtype)));
	json_put(object, "shape", shape);
	json_put(object, "bytes",
		json_u64((uint64_t)tarn_layout_nbytes(layout)));
	return object;
}

static int wait_name(const char *name, uint64_t version, int timeout_ms,
	const char *socket, bool json)
{
	_cleanup_store_ tarn_store *store = NULL;
	_cleanup_tensor_ tarn_tensor *tensor = NULL;
	uint64_t now;
	int r;

	if (cli_store_open(socket, &store) < 0)
		return EXIT_FAILED;
	r = tarn_store_wait(store, name, version, timeout_ms, &tensor, &now);
	if (r < 0) {
		print_error();
		if (r == -ETIMEDOUT &&
			tarn_store_version(store, name, &now) == -ENOENT)
			cli_hint_name(store, name);
		return EXIT_FAILED;
	}
	if (json)
		return json_print(wait_json(name, now, tensor));
	text_put(stdout, name);
	printf(" version %llu\n", (unsigned long long)now);
	return EXIT_DONE;
}

int cmd_wait(int argc, char **argv)
{
	const char *socket = NULL, *after = NULL, *timeout = NULL;
	bool json = false;
	const struct option_row rows[] = {
		OPTION_JSON(&json),
		OPTION_SOCKET(&socket),
		OPTION_POOL,
		{.name = "timeout",
			.letter = 't',
			.value = "S",
			.ret_text = &timeout,
			.help = "give up after S seconds, as in 0.5"},
		{.name = "version",
			.letter = 'v',
			.value = "N",
			.ret_text = &after,
			.help = "wait for a version newer than N"},
		{0},
	};
	const struct usage usage = {.verb = "wait",
		.arguments = "[OPTION]... NAME",
		.about = "Waits until something is published as NAME, for "
			 "ever if no time is given, and\nprints \"NAME version "
			 "N\".",
		.options = rows,
		.args_min = 1,
		.args_max = 1};
	uint64_t version;
	char **args;
	int n, r, ms;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	ms = parse_timeout(timeout);
	if (ms == -2)
		return usage_failed(&usage,
			"--timeout needs a number of seconds, not '%s'",
			timeout);
	if (!parse_version(after, &version))
		return usage_failed(
			&usage, "--version needs a number, not '%s'", after);
	return wait_name(args[0], version, ms, socket, json);
}
