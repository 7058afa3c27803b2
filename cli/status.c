/* SPDX-License-Identifier: MIT */
/*
 * tarn status: how the daemon fares. It starts none: that none is running is
 * what one wanted to know.
 */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/checked.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/say.h"
#include "cli/store.h"
#include "cli/text.h"

static json_t *status_json(
	const char *socket, const struct tarn_store_status *s)
{
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{"clients", s->clients},
		{"loaders", s->loaders},
		{"uptime_ms", s->uptime_ms},
		{"names", s->names},
		{"storages", s->storages},
		{"budget", s->budget},
		{"allocated", s->allocated},
		{"used", s->used},
		{"cached", s->cached},
		{"loads", s->loads},
		{"loads_cached", s->loads_cached},
		{"loads_active", s->loads_active},
		{"loads_failed", s->loads_failed},
		{"bytes_loaded", s->bytes_loaded},
	};
	json_t *object = must(json_object());
	char instance[17];

	/* It is random and of 64 bits, which many JSON readers round. */
	snprintf(instance, sizeof(instance), "%016" PRIx64, s->instance);
	json_put(object, "socket", json_text(socket));
	json_put(object, "version", json_text(s->version));
	json_put(object, "instance", json_text(instance));
	json_put(object, "keeper_pid", must(json_integer(s->keeper_pid)));
	json_put(object, "server_pid", must(json_integer(s->server_pid)));
	json_put(object, "engine", json_text(s->engine));
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		json_put(object, numbers[i].key, json_u64(numbers[i].value));
	return object;
}

static void print_duration(uint64_t ms)
{
	uint64_t s = ms / 1000;

	if (s >= 86400)
		printf("%" PRIu64 " d ", s / 86400);
	if (s >= 3600)
		printf("%" PRIu64 " h ", s / 3600 % 24);
	if (s >= 60)
		printf("%" PRIu64 " min ", s / 60 % 60);
	printf("%" PRIu64 " s", s % 60);
}

static void print_status(const char *socket, const struct tarn_store_status *s)
{
	char a[TEXT_BYTES_MAX], b[TEXT_BYTES_MAX], c[TEXT_BYTES_MAX],
		d[TEXT_BYTES_MAX];

	printf("tarnd ");
	text_put(stdout, s->version);
	printf(" at ");
	text_put(stdout, socket);
	printf("\n  running   for ");
	print_duration(s->uptime_ms);
	printf(", keeper %d, server %d, loaders: %" PRIu32 ", clients: %" PRIu32
	       "\n",
		s->keeper_pid, s->server_pid, s->loaders, s->clients);
	printf("  memory    %s used of %s taken; budget %s; %s of it cache\n",
		text_bytes((double)s->used, a),
		text_bytes((double)s->allocated, b),
		text_bytes((double)s->budget, c),
		text_bytes((double)s->cached, d));
	printf("  tensors   %" PRIu64 " names, %" PRIu64 " storages\n",
		s->names, s->storages);
	printf("  loads     %" PRIu64 ", of them %" PRIu64
	       " from the cache, %" PRIu64 " failed; %" PRIu64 " under way\n",
		s->loads, s->loads_cached, s->loads_failed, s->loads_active);
	printf("  read      %s by ", text_bytes((double)s->bytes_loaded, a));
	text_put(stdout, s->engine);
	putchar('\n');
}

int cmd_status(int argc, char **argv)
{
	_cleanup_store_ tarn_store *store = NULL;
	struct tarn_store_status status;
	const char *socket = NULL;
	bool json = false;
	const struct option_row rows[] = {
		OPTION_JSON(&json), OPTION_SOCKET(&socket), {0}};
	const struct usage usage = {.verb = "status",
		.arguments = "[OPTION]...",
		.about = "What the daemon holds, and how it fares. It is not "
			 "started if none runs.",
		.options = rows};
	char **args;
	int n, r;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	r = cli_store_find(socket, &store);
	if (r)
		return r == 1 ? cli_no_daemon(socket) : EXIT_FAILED;
	if (tarn_store_get_status(store, &status) < 0)
		return say_error();
	if (json)
		return json_print(
			status_json(tarn_store_socket(store), &status));
	print_status(tarn_store_socket(store), &status);
	return EXIT_DONE;
}
