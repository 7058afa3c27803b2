/* SPDX-License-Identifier: MIT */
/*
 * tarn load: a file into shared memory. A file loaded without a name stays as
 * long as memory lasts, and is found by its FILE:TENSOR addresses. Run by mpirun,
 * all processes load it together, and then it is published on every node.
 */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tarn/node.h>

#include "cli/json.h"
#include "cli/load_together.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/store.h"
#include "cli/text.h"
#include "cli/size.h"

/* So often in a row no writer comes between by accident; picked. */
#define CHANGED_TRIES 10

static json_t *load_json(const char *name, const struct tarn_load_info *info)
{
	json_t *object = must(json_object());

	json_put(object, "name", name ? json_text(name) : json_null());
	json_put(object, "bytes", json_u64(info->bytes));
	json_put(object, "seconds", json_real(info->seconds));
	json_put(object, "cpu_seconds", json_real(info->cpu_seconds));
	json_put(object, "engine", json_text(info->engine));
	json_put(object, "direct", json_boolean(info->direct));
	json_put(object, "registered", json_boolean(info->registered));
	json_put(object, "cached", json_boolean(info->cached));
	json_put(object, "not_kept",
		info->not_kept ? json_text(info->not_kept) : json_null());
	return object;
}

static void print_load(const char *path, const char *name, size_t n_tensors,
	const struct tarn_load_info *info)
{
	char bytes[SIZE_TEXT_MAX], rate[SIZE_TEXT_MAX];

	text_put(stdout, path);
	printf(": %zu tensor%s, %s", n_tensors, n_tensors == 1 ? "" : "s",
		size_text((double)info->bytes, bytes));
	if (info->cached)
		printf(", in memory already (%.3f s)", info->seconds);
	else
		printf(" in %.3f s (%s/s) by %s, %s%s; CPU %.3f s",
			info->seconds,
			size_text(info->seconds > 0
					  ? (double)info->bytes / info->seconds
					  : 0,
				rate),
			info->engine,
			info->direct ? "direct" : "through the page cache",
			info->registered ? ", registered buffers" : "",
			info->cpu_seconds);
	if (name) {
		fputs("; published below ", stdout);
		text_put(stdout, name);
		putchar('/');
	}
	if (info->not_kept)
		printf("; not kept: %s", info->not_kept);
	putchar('\n');
}

/* Errors of the file are found before a daemon is started, unless it is an
 * archive: the daemon may have what it is inflated to. */
static bool is_archive(const char *path)
{
	/* As tarn_file_open: a fifo is none, and must not block. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char begin[2];
	ssize_t n = fd < 0 ? -1 : pread(fd, begin, sizeof(begin), 0);

	if (fd >= 0)
		close(fd);
	return n == (ssize_t)sizeof(begin) &&
	       !memcmp(begin, "PK", sizeof(begin));
}

static int open_file(const char *path, const char *socket, tarn_store **store,
	tarn_file **file)
{
	bool archive = is_archive(path);

	if (!archive && tarn_file_open(path, file) < 0)
		return print_error();
	if (cli_store_open(socket, store) < 0)
		return EXIT_FAILED;
	if (archive && tarn_store_open_file(*store, path, file) < 0)
		return print_error();
	return EXIT_DONE;
}

/* A file that changes between its parsing and its load is parsed anew. */
static int load_version(tarn_store *store, const char *path,
	const struct tarn_load_options *options, struct tarn_load_info *info,
	tarn_file **file)
{
	int r = tarn_store_load(store, *file, options, info, NULL);

	for (int i = 1; i < CHANGED_TRIES && r == -ESTALE; i++) {
		*file = tarn_file_unref(*file);
		r = tarn_store_open_file(store, path, file);
		if (r >= 0)
			r = tarn_store_load(store, *file, options, info, NULL);
	}
	return r;
}

/* node -1: by the pool's policy. */
static int load(const char *path, struct tarn_load_options *options,
	const char *socket, int node, bool json)
{
	_cleanup_store_ tarn_store *store = NULL;
	_cleanup_file_ tarn_file *file = NULL;
	struct progress_bar progress;
	struct tarn_load_info info;
	int r;

	options->progress = progress_load_step;
	options->arg = &progress;
	r = open_file(path, socket, &store, &file);
	if (r != EXIT_DONE)
		return r;
	if (tarn_store_set_node(store, node) < 0)
		return print_error();
	progress_begin(&progress);
	r = load_version(store, path, options, &info, &file);
	progress_end(&progress);
	if (r < 0)
		return print_error();
	if (json)
		return json_print(load_json(options->name, &info));
	print_load(path, options->name, tarn_file_count(file), &info);
	return EXIT_DONE;
}

/* ---- with others ------------------------------------------------------ */

static json_t *together_json(
	const char *name, const struct tarn_mpi_load_info *info)
{
	json_t *object = must(json_object());

	json_put(object, "name", name ? json_text(name) : json_null());
	json_put(object, "bytes", json_u64(info->bytes));
	json_put(object, "seconds", json_real(info->seconds));
	json_put(object, "nodes", json_u64((uint64_t)info->nodes));
	json_put(object, "cached", json_boolean(info->cached));
	return object;
}

static void print_together(const char *path, const char *name,
	const struct tarn_mpi_load_info *info)
{
	char bytes[SIZE_TEXT_MAX], rate[SIZE_TEXT_MAX];

	text_put(stdout, path);
	printf(": %zu tensor%s, %s on %d node%s", info->tensors,
		info->tensors == 1 ? "" : "s",
		size_text((double)info->bytes, bytes), info->nodes,
		info->nodes == 1 ? "" : "s");
	if (info->cached)
		printf(", in memory already (%.3f s)", info->seconds);
	else
		printf(" in %.3f s (%s/s)", info->seconds,
			size_text(info->seconds > 0
					  ? (double)info->bytes / info->seconds
					  : 0,
				rate));
	if (name) {
		fputs("; published below ", stdout);
		text_put(stdout, name);
		putchar('/');
	}
	putchar('\n');
}

/* An error of one process is told to all. */
static int set_node(void *arg, tarn_store *store)
{
	return tarn_store_set_node(store, *(const int *)arg);
}

/* EXIT_DONE or EXIT_FAILED; -1: each process is to load it for itself. All have
 * the same error, and the first one prints it; but each one that it gave up. */
static int with_others(const char *path,
	const struct tarn_load_options *options, const char *socket, int node,
	bool json)
{
	const struct tarn_mpi_load_options together = {.name = options->name,
		.fresh = options->fresh,
		.socket = socket,
		.pool = cli_pool,
		.prepare = set_node,
		.arg = &node};
	struct tarn_mpi_load_info info;
	int r;

	if (options->verify) {
		print_failure("--verify is not for several nodes together");
		print_hint("with --alone each process loads all of it");
		return EXIT_FAILED;
	}
	r = load_together(NULL, path, &together, &info);
	if (r > 0) {
		if (load_speaks())
			print_hint("each process loads all of it: %s",
				tarn_error_message());
		return -1;
	}
	/* The first one may be what the others have waited for. */
	if (r < 0)
		return r == -ETIMEDOUT || load_speaks() ? print_error()
							: EXIT_FAILED;
	if (!load_speaks())
		return EXIT_DONE;
	if (json)
		return json_print(together_json(options->name, &info));
	print_together(path, options->name, &info);
	return EXIT_DONE;
}

/* Alone where that is wanted, or there are no others. */
static int load_somehow(bool alone, const char *path,
	struct tarn_load_options *options, const char *socket, int node,
	bool json)
{
	int r = alone || !load_is_together()
			? -1
			: with_others(path, options, socket, node, json);

	return r >= 0 ? r : load(path, options, socket, node, json);
}

/* ---- the verb --------------------------------------------------------- */

/* "model/" is "model": tensors are published below it either way. */
static char *without_slash(const char *name)
{
	char *copy = name ? must(strdup(name)) : NULL;
	size_t n = name ? strlen(name) : 0;

	while (n && copy[n - 1] == '/')
		copy[--n] = '\0';
	return copy;
}

int cmd_load(int argc, char **argv)
{
	const char *socket = NULL, *name = NULL, *node_text = NULL;
	struct tarn_load_options options = {0};
	bool json = false, alone = false;
	const struct option_row rows[] = {
		{.name = "name",
			.letter = 'n',
			.value = "PREFIX",
			.ret_text = &name,
			.help = "publish each tensor as PREFIX/TENSOR"},
		{.name = "verify",
			.letter = 'v',
			.ret_flag = &options.verify,
			.help = "compare the checksums that the file has "
				"first"},
		{.name = "fresh",
			.letter = 'f',
			.ret_flag = &options.fresh,
			.help = "read the file, also if its bytes are in "
				"memory already"},
		{.name = "alone",
			.letter = 'a',
			.ret_flag = &alone,
			.help = "under mpirun: without the other processes"},
		OPTION_NODE(&node_text, "on that NUMA node, or not at all"),
		OPTION_JSON(&json),
		OPTION_SOCKET(&socket),
		OPTION_POOL,
		{0},
	};
	const struct usage usage = {.verb = "load",
		.arguments = "[OPTION]... FILE",
		.about = "Loads all tensors of a file into memory that many "
			 "processes share. Without a\nname they are reachable "
			 "as FILE:TENSOR.",
		.options = rows,
		.args_min = 1,
		.args_max = 1};
	_cleanup_free_ char *folder = NULL;
	char **args;
	int n, r, node = -1;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	r = option_node(&usage, node_text, &node);
	if (r != OPTIONS_DONE)
		return r;
	folder = without_slash(name);
	if (folder && !*folder)
		return usage_failed(
			&usage, "--name needs a name, not '%s'", name);
	options.name = folder;
	return load_somehow(alone, args[0], &options, socket, node, json);
}
