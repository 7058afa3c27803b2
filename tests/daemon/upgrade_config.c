/* SPDX-License-Identifier: MIT */
/*
 * The configuration can no longer be read when the daemon has become another
 * program, though it could be in the trial run: what was in force before stays
 * in force, and the log says so, until it is read again.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/kit/tap.h"
#include "tests/kit/upgrade.h"

static char log_path[300], conf_path[300];

static void configure(unsigned names)
{
	FILE *f = fopen(conf_path, "we");

	if (!f ||
		fprintf(f,
			"[quota %u]\nnames = %u\n"
			"[pool both]\nowner = %u\n",
			geteuid(), names, geteuid()) < 0 ||
		fclose(f) != 0)
		bail("%s: %m", conf_path);
}

/* It spoils the configuration with what the shell has built in: another
 * process of its own could reap those of the keeper. */
static void install_spoiler(void)
{
	char script[1000];

	snprintf(script, sizeof(script),
		"#!/bin/sh\n"
		"test \"$1\" = --adopt && echo nonsense > '%s'\n"
		"exec '%s' \"$@\"\n",
		conf_path, getenv("ORIGINAL"));
	program_install(script, strlen(script), 0700);
}

static int publish(const char *name)
{
	struct tarn_publish_item item = {.name = name};
	const int64_t shape[] = {1};
	int r = tarn_store_create(store, TARN_U8, 1, shape, 0, &item.tensor);

	if (r >= 0)
		r = tarn_store_publish(store, &item, 1, NULL, NULL);
	tarn_tensor_unref(item.tensor);
	return r;
}

static bool pool_opens(void)
{
	tarn_store *pool = NULL;
	int r = tarn_store_open(daemon_.socket,
		&(const struct tarn_store_options) {.pool = "both"}, &pool);

	tarn_store_unref(pool);
	return r >= 0;
}

int main(void)
{
	unsigned n;

	snprintf(log_path, sizeof(log_path), "%s/log", test_tmpdir());
	snprintf(conf_path, sizeof(conf_path), "%s/conf", test_tmpdir());
	setenv("ORIGINAL", getenv("TARN_DAEMON"), 1);
	configure(2);
	daemon_log_to(log_path);
	upgrade_begin_with((const char *const[]) {"--config", conf_path, NULL});
	is_int(0, publish("a"), "a first name is published");
	is_int(0, publish("b"), "a second name is published");
	is_int(-EDQUOT, publish("c"),
		"a third name is refused by the quota of two");
	install_spoiler();
	upgrade();
	is_int(1, report().upgrades, "the daemon is upgraded once");
	is_int(-EDQUOT, publish("c"),
		"the quota is two names after the upgrade, too");
	ok(pool_opens(),
		"the pool of the configuration opens after the upgrade");
	is_int(1, daemon_logged(log_path, " config_unread "),
		"the log says once that the configuration was not read");
	is_int(0, daemon_logged(log_path, " reload_kept "),
		"the log reports no removed pool or quota");
	configure(3);
	n = daemon_logged(log_path, " reload ");
	kill(daemon_.pid, SIGHUP);
	ok(daemon_logs(log_path, " reload ", n),
		"SIGHUP reads the configuration again");
	is_int(0, publish("c"), "a third name is accepted after the reload");
	is_int(-EDQUOT, publish("d"),
		"a fourth name is refused after the reload");
	upgrade_end();
	unlink(conf_path);
	unlink(log_path);
	return done(12);
}
