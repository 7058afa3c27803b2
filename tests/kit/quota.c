/* SPDX-License-Identifier: MIT */
/* See quota.h. */
#include "tests/kit/quota.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/kit/raw_client.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

struct pool_kit kit_quota_pool;
tarn_store *kit_quota_store;

void kit_quota_begin(const char *quota)
{
	struct tarn_report_daemon status;
	char conf[256];

	kit_quota_pool = (struct pool_kit) {0};
	snprintf(conf, sizeof(conf), "[quota %u]\n%s\n", geteuid(), quota);
	kit_pool_start(&kit_quota_pool, conf);
	if (tarn_store_open(
		    kit_quota_pool.daemon.socket, NULL, &kit_quota_store) < 0)
		bail("open: %s", tarn_error_message());
	/* The client that saw the daemon start may still be leaving. */
	for (int ms = 0; ms < RAW_PATIENCE_MS; ms += 10) {
		if (report_daemon(kit_quota_store, &status) < 0)
			bail("status: %s", tarn_error_message());
		if (status.clients == 1)
			break;
		usleep(10000);
	}
}

void kit_quota_end(const char *what)
{
	kit_quota_store = tarn_store_unref(kit_quota_store);
	is_int(0, kit_pool_stop(&kit_quota_pool),
		"the daemon with a quota of %s ends without an error", what);
}

int kit_quota_load(const char *name, uint64_t size)
{
	const struct tarn_load_options options = {.name = name};
	const char *path = kit_pool_file(&kit_quota_pool, name, size, 3, 0);
	tarn_file *file = NULL;
	int r = tarn_file_open(path, &file);

	if (r >= 0)
		r = tarn_store_load(
			kit_quota_store, file, &options, NULL, NULL);
	tarn_file_unref(file);
	return r;
}
