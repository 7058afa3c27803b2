/* SPDX-License-Identifier: MIT */
/* The command line of tarnd, and the defaults that make it optional. */
#include "daemon/config/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "config.h"
#include "daemon/config/conf.h"
#include "daemon/config/settings.h"

static const char help[] =
	"usage: tarnd --socket PATH [OPTION]...\n"
	"Keeps tensors in memory that many processes share, and loads tensor\n"
	"files into it. Clients start one by themselves; by hand it runs in\n"
	"the foreground and logs to stderr.\n"
	"\n"
	"  --socket PATH       where clients connect; $TARN_SOCKET without it\n"
	"  --budget SIZE       memory that it may take (half of what is free)\n"
	"  --segment-size SIZE largest piece in which it is taken (256M, to "
	"1G)\n"
	"  --node WHERE        on which NUMA node memory lies: auto, local,\n"
	"                      interleave, or a number (auto)\n"
	"  --register          memory that any GPU can register: tarnd.conf(5)\n"
	"  --auto              quietly end if one is already serving; end "
	"when\n"
	"                      there was no client and no name for a while\n"
	"  --idle SECONDS      that while (600)\n"
	"  --mode MODE         of the socket: 0600 its own user's, 0666 "
	"everybody's\n"
	"  --config FILE       pools, quotas and defaults of these options;\n"
	"                      " CONFIG_PATH " without it, if there is\n"
	"  --check-config      say what would be used, and end\n"
	"  --help              this text\n"
	"  --version           the version\n"
	"\n"
	"SIZE is in bytes or with K, M, G, T (powers of 1024).\n"
	"SIGTERM: finishes running loads, then ends. SIGHUP: reads FILE "
	"again.\n"
	"SIGUSR2: goes on as the program that is installed now. See "
	"tarnd(8).\n";

enum {
	OPT_SETTING = 256, /* its name is that of the option */
	OPT_AUTO,
	OPT_CONFIG,
	OPT_CHECK,
	OPT_ADOPT,
	OPT_ADOPT_CHECK,
	OPT_HELP,
	OPT_VERSION
};

static const struct option longs[] = {
	{"socket", required_argument, NULL, OPT_SETTING},
	{"budget", required_argument, NULL, OPT_SETTING},
	{"segment-size", required_argument, NULL, OPT_SETTING},
	{"node", required_argument, NULL, OPT_SETTING},
	{"register", no_argument, NULL, OPT_SETTING},
	{"idle", required_argument, NULL, OPT_SETTING},
	{"mode", required_argument, NULL, OPT_SETTING},
	{"auto", no_argument, NULL, OPT_AUTO},
	{"config", required_argument, NULL, OPT_CONFIG},
	{"check-config", no_argument, NULL, OPT_CHECK},
	/* Passed by a keeper to the program that replaces it. */
	{"adopt", required_argument, NULL, OPT_ADOPT},
	{"adopt-check", required_argument, NULL, OPT_ADOPT_CHECK},
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

static int take_setting(struct options *o, const char *name)
{
	_cleanup_free_ char *what = NULL;

	/* The option without a value. */
	if (setting_take(o, name, optarg ? optarg : "yes") == 0) {
		o->given |= setting_bit(name);
		return 0;
	}
	if (asprintf(&what, "--%s", tarn_fail_message()) < 0)
		what = NULL;
	return usage(what ? what : "out of memory", NULL);
}

static int take_option(int c, const char *name, struct options *o)
{
	switch (c) {
	case OPT_SETTING:
		return take_setting(o, name);
	case OPT_AUTO:
		o->automatic = true;
		return 0;
	case OPT_CONFIG:
		o->config = optarg;
		return 0;
	case OPT_CHECK:
		o->check = true;
		return 0;
	case OPT_ADOPT:
		o->adopt = atoi(optarg);
		return 0;
	case OPT_ADOPT_CHECK:
		o->adopt_check = atoi(optarg);
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

/* What serves a whole machine: root's, and not one that root's own client
 * started for itself. */
static void choose_defaults(struct options *o)
{
	bool system = geteuid() == 0 && !o->automatic;

	if (!o->mode)
		o->mode = system ? 0666 : 0600;
	if (!o->config && system && access(CONFIG_PATH, F_OK) == 0)
		o->config = CONFIG_PATH;
}

int options_parse(int argc, char **argv, struct options *ret)
{
	struct options o = {
		.socket = getenv("TARN_SOCKET"),
		.segment_max = SEGMENT_DEFAULT,
		.idle_ns = 600 * 1000000000ull,
		.argv = argv,
		.adopt = -1,
		.adopt_check = -1,
	};
	int c, r, i = 0;

	while ((c = getopt_long(argc, argv, "", longs, &i)) != -1) {
		r = take_option(c, longs[i].name, &o);
		if (r)
			return r;
	}
	if (optind < argc)
		return usage("unexpected argument", argv[optind]);
	choose_defaults(&o);
	*ret = o;
	return 0;
}

int options_check(const struct options *options)
{
	if (!options->socket || !*options->socket)
		return usage("say where to listen with --socket PATH", NULL);
	return 0;
}
