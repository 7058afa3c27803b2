/* SPDX-License-Identifier: MIT */
/*
 * The daemon, as the verbs use it. A verb that only looks does not start one,
 * since a daemon that does not run has nothing to show.
 */
#include "cli/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tarn/channel.h>

#include "cli/cli.h"
#include "cli/listing.h"
#include "cli/message.h"
#include "cli/suggest.h"

const char *cli_pool;

int cli_store_open(const char *socket, tarn_store **ret)
{
	const struct tarn_store_options options = {.pool = cli_pool};
	int r = tarn_store_open(socket, &options, ret);

	if (r < 0)
		print_error();
	return r < 0 ? r : 0;
}

/* No daemon serves there, or it is just ending. */
static bool is_nobody(int r)
{
	return r == -ENOENT || r == -ECONNREFUSED || r == -ECONNRESET ||
	       r == -EPIPE;
}

static int no_daemon(const char *socket)
{
	const char *env = getenv("TARN_SOCKET");

	if (!socket && env && *env)
		socket = env;
	print_failure("no daemon is running%s%s", socket ? " at " : "",
		socket ? socket : "");
	if (socket)
		print_hint("'tarnd --socket %s' runs one", socket);
	else
		print_hint("'tarn load FILE' starts one");
	return EXIT_FAILED;
}

int cli_store_find(const char *socket, tarn_store **ret)
{
	const struct tarn_store_options options = {.pool = cli_pool};
	int r;

	*ret = NULL;
	/* This process opens one store. */
	setenv("TARN_AUTOSTART", "0", 1);
	r = tarn_store_open(socket, &options, ret);
	if (r >= 0)
		return EXIT_DONE;
	if (!is_nobody(r))
		return print_error();
	return socket ? no_daemon(socket) : EXIT_DONE;
}

int cli_store_need(const char *socket, tarn_store **ret)
{
	int r = cli_store_find(socket, ret);

	return r == EXIT_DONE && !*ret ? no_daemon(socket) : r;
}

bool cli_is_file(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

static int offer(void *arg, const char *name,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	(void)descriptor;
	(void)version;
	suggest_offer(arg, name);
	return 0;
}

void cli_hint_name(tarn_store *store, const char *name)
{
	struct suggest suggest;

	suggest_begin(&suggest, name);
	if (tarn_store_list(store, NULL, offer, &suggest) >= 0)
		suggest_print(&suggest, "'tarn ls' lists what is published");
}

bool cli_hint_folder(tarn_store *store, const char *name, const char *command,
	const char *does)
{
	_cleanup_listing_ struct listing below = {0};

	if (listing_add_store(&below, store, name, true) < 0 || !below.n)
		return false;
	print_hint("%zu %s below it; '%s%s%s/' %s %s", below.n,
		below.n == 1 ? "is" : "are", command ? command : "",
		command ? " " : "", name, command ? does : "stands for",
		below.n == 1 ? "it" : "them");
	return true;
}

static int compare(void *arg, const char *name)
{
	return strcmp(arg, name) == 0;
}

bool cli_is_channel(tarn_store *store, const char *name)
{
	return tarn_channel_list(store, name, compare, (void *)name) == 1;
}

int cli_channel_failed(const char *name)
{
	print_failure("'%s' is a channel, whose items come and go", name);
	print_hint("'tarn channel stat %s' shows its state, 'tarn channel "
		   "tail %s' what it gets",
		name, name);
	return EXIT_FAILED;
}
