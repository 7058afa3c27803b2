/* SPDX-License-Identifier: MIT */
/*
 * tarn print: a tensor, or a view of it, as numbers for people or as bytes for
 * programs.
 */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/address.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/raw.h"
#include "cli/store.h"

/* The library reported that there is no such tensor. */
static void hint(tarn_store *store, const char *address)
{
	_cleanup_file_ tarn_file *file = NULL;
	_cleanup_free_ char *path = NULL;
	const char *tensor;

	path = address_file(address, &tensor);
	if (!path) {
		cli_hint_name(store, address);
		return;
	}
	if (tarn_file_open(path, &file) < 0)
		return;
	address_hint(file, tensor);
}

/* ---- printing ------------------------------------------------------ */

static int print_view(tarn_tensor *tensor, const char *expr, bool raw)
{
	_cleanup_tensor_ tarn_tensor *view = NULL;
	_cleanup_free_ char *text = NULL;

	if (tarn_tensor_eval_copy(tensor, expr, &view) < 0)
		return print_error();
	if (raw)
		return raw_write(view) < 0 ? EXIT_FAILED : EXIT_DONE;
	if (tarn_tensor_format(view, 0, &text) < 0)
		return print_error();
	puts(text);
	return EXIT_DONE;
}

int cmd_print(int argc, char **argv)
{
	_cleanup_tensor_ tarn_tensor *tensor = NULL;
	_cleanup_store_ tarn_store *store = NULL;
	_cleanup_free_ char *whole = NULL;
	const char *socket = NULL;
	bool raw = false;
	const struct option_row rows[] = {
		{.name = "raw",
			.letter = 'r',
			.ret_flag = &raw,
			.help = "write the view's bytes in C order, and "
				"nothing else"},
		OPTION_SOCKET(&socket),
		OPTION_POOL,
		{0},
	};
	const struct usage usage = {.verb = "print",
		.arguments = "[OPTION]... FILE[:TENSOR]|NAME [EXPR]",
		.about = "Prints a tensor as numpy does, or a view of it: EXPR "
			 "is a chain of views like\n'[0:4, ::2].permute(1,0)'; "
			 "'tarn view --help' has them all. Of a FILE with one\n"
			 "tensor its name need not be given. A FILE is loaded "
			 "if it is not yet; a daemon\nis started if none runs.",
		.options = rows,
		.args_min = 1,
		.args_max = 2};
	char **args;
	int n, r;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	if (cli_store_open(socket, &store) < 0)
		return EXIT_FAILED;
	if (cli_is_channel(store, args[0]))
		return cli_channel_failed(args[0]);
	r = tarn_store_get(store, args[0], NULL, &tensor);
	if (r == -ENOENT && cli_is_file(args[0])) {
		whole = address_of_one(args[0]);
		if (!whole)
			return EXIT_FAILED;
		r = tarn_store_get(store, whole, NULL, &tensor);
	}
	if (r < 0)
		print_error();
	if (r == -ENOENT)
		hint(store, args[0]);
	if (r < 0)
		return EXIT_FAILED;
	return print_view(tensor, n > 1 ? args[1] : "", raw);
}
