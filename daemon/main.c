/* SPDX-License-Identifier: MIT */
/* tarnd: the command line and the configuration, then the keeper. */
#include <stdio.h>

#include "base/fail.h"
#include "base/std_fds.h"
#include "daemon/config/conf.h"
#include "daemon/config/options.h"
#include "daemon/keeper/keeper.h"

/* The exit status of a trial run for an upgrade that succeeds: nothing else
 * ends with it. */
static int check_adoption(const struct options *options)
{
	if (keeper_adopt_check(options->adopt_check) == 0)
		return ADOPT_YES;
	fprintf(stderr, "tarnd: it cannot be gone on from: %s\n",
		tarn_fail_message());
	return 1;
}

int main(int argc, char **argv)
{
	static struct config config;
	static struct options options, line; /* not lost at the end */
	int r;

	std_fds_open();
	r = options_parse(argc, argv, &options);
	if (r != 0)
		return r > 0 ? 0 : 2;
	/* It has all descriptors of the keeper. */
	if (options.adopt >= 0)
		keeper_adopt_begin();
	else if (options.adopt_check >= 0)
		keeper_hide();
	line = options;
	if (config_read(&options, &config) < 0) {
		fprintf(stderr, "tarnd: %s\n", tarn_fail_message());
		/* It was right a moment ago, and there is all that memory:
		 * keeper_adopt takes what the program before had read. */
		if (options.adopt < 0)
			return 2;
		options = line;
		options.unread = true;
	}
	if (options.check) {
		config_print(&options, &config, stdout);
		return 0;
	}
	if (options.adopt_check >= 0)
		return check_adoption(&options);
	if (options.adopt < 0 && options_check(&options) < 0)
		return 2;
	return keeper_run(&line, &options, &config);
}
