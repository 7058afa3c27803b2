/* SPDX-License-Identifier: MIT */
/* tarnd: the command line and the configuration, then the keeper. */
#include <stdio.h>

#include "base/fail.h"
#include "base/streams.h"
#include "daemon/conf.h"
#include "daemon/keeper.h"
#include "daemon/options.h"

/* For who asks whether this program could go on from there: nothing else ends
 * with that status. */
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

	streams_keep_apart();
	r = options_parse(argc, argv, &options);
	if (r != 0)
		return r > 0 ? 0 : 2;
	line = options;
	if (config_read(&options, &config) < 0) {
		fprintf(stderr, "tarnd: %s\n", tarn_fail_message());
		/* It was right a moment ago, and there is all that memory. */
		if (options.adopt < 0)
			return 2;
		options = line;
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
