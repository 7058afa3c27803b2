/* SPDX-License-Identifier: MIT */
/* tarnd: the command line, then the keeper. */
#include "daemon/keeper.h"
#include "daemon/options.h"

int main(int argc, char **argv)
{
	struct options options;
	int r = options_parse(argc, argv, &options);

	if (r != 0)
		return r > 0 ? 0 : 2;
	return keeper_run(&options);
}
