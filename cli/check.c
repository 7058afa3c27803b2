/* SPDX-License-Identifier: MIT */
/*
 * tarn check: is the store consistent? One line for each fault, or one that
 * says what was checked.
 */
#include <inttypes.h>
#include <stdio.h>

#include <tarn/report.h>

#include "cli/cli.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/store.h"
#include "cli/text.h"

static void print_faults(const struct tarn_check *check)
{
	for (uint32_t i = 0; i < check->n_faults; i++) {
		printf("fault: ");
		text_put(stdout, check->faults[i]);
		putchar('\n');
	}
	if (check->n_more)
		printf("fault: and %" PRIu32 " more\n", check->n_more);
}

int cmd_check(int argc, char **argv)
{
	_cleanup_store_ tarn_store *store = NULL;
	struct tarn_check *check = NULL;
	const char *socket = NULL;
	const struct option_row rows[] = {
		OPTION_SOCKET(&socket), OPTION_POOL, {0}};
	const struct usage usage = {.verb = "check",
		.arguments = "[OPTION]...",
		.about = "Has the daemon verify all that must be true of its "
			 "tables and its books.\nExit status 1 if there is a "
			 "fault; one line for each.",
		.options = rows};
	char **args;
	int n, r;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	r = cli_store_need(socket, &store);
	if (r != EXIT_DONE)
		return r;
	if (tarn_store_check(store, &check) < 0)
		return print_error();
	r = check->n_faults + check->n_more ? EXIT_FAILED : EXIT_DONE;
	print_faults(check);
	if (r == EXIT_DONE)
		printf("%" PRIu64 " names, %" PRIu64 " storages, %" PRIu64
		       " bytes: no fault found\n",
			check->names, check->storages, check->bytes);
	tarn_check_free(check);
	return r;
}
