/* SPDX-License-Identifier: MIT */
/* The command line of tarnd, and the defaults that make it optional. */
#include "daemon/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "daemon/keeper.h"

static const char help[] =
	"usage: tarnd --socket PATH [OPTION]...\n"
	"\n"
	"Keeps tensors in memory that many processes share, and loads tensor\n"
	"files into it. Clients start one by themselves; by hand it runs in\n"
	"the foreground and logs to stderr.\n"
	"\n"
	"  --socket PATH       where clients connect; $TARN_SOCKET without it\n"
	"  --budget SIZE       memory that it may take (half of what is free)\n"
	"  --segment-size SIZE largest piece in which it is taken (256M, to "
	"1G)\n"
	"  --auto              quietly end if one is already serving; end "
	"when\n"
	"                      there was no client and no name for a while\n"
	"  --idle SECONDS      that while (600)\n"
	"  --help              this text\n"
	"  --version           the version\n"
	"\n"
	"SIZE is in bytes or with K, M, G, T (powers of 1024).\n"
	"SIGTERM: finishes running loads, then ends. See tarnd(8).\n";

enum {
	OPT_SOCKET = 256,
	OPT_BUDGET,
	OPT_SEGMENT,
	OPT_AUTO,
	OPT_IDLE,
	OPT_HELP,
	OPT_VERSION
};

static const struct option longs[] = {
	{"socket", required_argument, NULL, OPT_SOCKET},
	{"budget", required_argument, NULL, OPT_BUDGET},
	{"segment-size", required_argument, NULL, OPT_SEGMENT},
	{"auto", no_argument, NULL, OPT_AUTO},
	{"idle", required_argument, NULL, OPT_IDLE},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{NULL, 0, NULL, 0},
};

static int usage(const char *what, const char *value)
{
	fprintf(stderr, "tarnd: %s%s%s; tarnd --help lists the options\n", what,
		value ? ": " : "", value ? value : "");
	return -EINVAL;
}

static int parse_size(const char *text, uint64_t *ret)
{
	static const char units[] = "KMGT";
	unsigned long long n;
	const char *unit;
	char *end;
	int shift = 0;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno || end == text || text[0] == '-')
		return -EINVAL;
	if (*end) {
		unit = strchr(units, *end);
		if (!unit || end[1])
			return -EINVAL;
		shift = 10 * (int)(unit - units + 1);
	}
	if (n > UINT64_MAX >> shift)
		return -EINVAL;
	*ret = (uint64_t)n << shift;
	return 0;
}

static int take_option(int c, struct options *o)
{
	uint64_t seconds;

	switch (c) {
	case OPT_SOCKET:
		o->socket = optarg;
		return 0;
	case OPT_BUDGET:
		if (parse_size(optarg, &o->budget) || !o->budget)
			return usage("--budget is no size", optarg);
		return 0;
	case OPT_SEGMENT:
		if (parse_size(optarg, &o->segment_max) ||
			o->segment_max < SEGMENT_UNIT ||
			o->segment_max > SEGMENT_LIMIT ||
			o->segment_max % SEGMENT_UNIT)
			return usage("--segment-size must be a multiple of 2M "
				     "up to 1G",
				optarg);
		return 0;
	case OPT_AUTO:
		o->automatic = true;
		return 0;
	case OPT_IDLE:
		if (parse_size(optarg, &seconds) || seconds > 1000000000)
			return usage("--idle is no number of seconds", optarg);
		o->idle_ns = seconds * 1000000000ull;
		return 0;
	case OPT_HELP:
		fputs(help, stdout);
		return 1;
	case OPT_VERSION:
		puts("tarnd " PACKAGE_VERSION);
		return 1;
	default:
		return usage("wrong usage", NULL);
	}
}

int options_parse(int argc, char **argv, struct options *ret)
{
	struct options o = {
		.socket = getenv("TARN_SOCKET"),
		.segment_max = SEGMENT_DEFAULT,
		.idle_ns = 600 * 1000000000ull,
	};
	int c, r;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		r = take_option(c, &o);
		if (r)
			return r;
	}
	if (optind < argc)
		return usage("unexpected argument", argv[optind]);
	if (!o.socket || !*o.socket)
		return usage("say where to listen with --socket PATH", NULL);
	*ret = o;
	return 0;
}
