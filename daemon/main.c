/* SPDX-License-Identifier: MIT */
/* tarnd: the command line and the configuration, then the keeper. */
#include <stdio.h>

#include "base/fail.h"
#include "daemon/conf.h"
#include "daemon/keeper.h"
#include "daemon/options.h"

int main(int argc, char **argv)
{
	static struct config config;
	static struct options options, line; /* not lost at the end */
	int r = options_parse(argc, argv, &options);

	if (r != 0)
		return r > 0 ? 0 : 2;
	line = options;
	if (config_read(&options, &config) < 0) {
		fprintf(stderr, "tarnd: %s\n", tarn_fail_message());
		return 2;
	}
	if (options.check) {
		config_print(&options, &config, stdout);
		return 0;
	}
	if (options_check(&options) < 0)
		return 2;
	return keeper_run(&line, &options, &config);
}
