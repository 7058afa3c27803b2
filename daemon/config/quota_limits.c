/* SPDX-License-Identifier: MIT */
/*
 * The default quotas of a user: more than any honest use that we know of needs,
 * and little enough that a daemon can still serve several users.
 */
#include "daemon/config/quota_limits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/config/conf_internal.h"
#include "daemon/config/settings.h"

const char config_quota_keys[] =
	"bytes, storages, names, descriptors, connections, loads, requests, "
	"device";

static const struct {
	const char *key;
	uint64_t limit;
} kinds[QUOTA_KINDS] = {
	/* How memory is shared out is for people to say; until they do, the
	 * budget and eviction are what there is. */
	[QUOTA_BYTES] = {"bytes", QUOTA_UNSAID},
	/* A quarter of a table. */
	[QUOTA_STORAGES] = {"storages", 1u << 20},
	/* Twice the million that we promise; some 1.5 GiB of table. */
	[QUOTA_NAMES] = {"names", 2000000},
	/* One for each tensor of 2 MiB and more that was created: at least
	 * 32 GiB of those, out of the half million that a process may have. */
	[QUOTA_DESCRIPTORS] = {"descriptors", 16384},
	/* A quarter of all that the keeper lets in. */
	[QUOTA_CONNECTIONS] = {"connections", 1024},
	/* Picked: more than a user has threads that load at the same time. */
	[QUOTA_LOADS] = {"loads", 256},
	/* Four of the longest messages. */
	[QUOTA_REQUESTS] = {"requests", 256u << 20},
	/* The device's driver refuses what does not fit. */
	[QUOTA_DEVICE] = {"device", QUOTA_UNSAID},
};

const char *quota_key(enum quota_kind kind)
{
	return kinds[kind].key;
}

int config_quota_key(struct quota *quota, const char *key, const char *value)
{
	for (int i = 0; i < QUOTA_KINDS; i++) {
		if (strcmp(kinds[i].key, key) != 0)
			continue;
		if (setting_size(value, &quota->limit[i]) ||
			quota->limit[i] == QUOTA_UNSAID)
			return tarn_fail(EINVAL,
				"%s must be a number, with K, M, G or T: %s",
				key, value);
		return 0;
	}
	return -ENOENT;
}

struct quota config_quota(const struct config *config, uint32_t uid)
{
	struct quota quota = config->common;

	for (int i = 0; i < QUOTA_KINDS; i++)
		if (uid == 0 || uid == geteuid())
			quota.limit[i] = QUOTA_UNSAID;
		else if (quota.limit[i] == QUOTA_UNSAID)
			quota.limit[i] = kinds[i].limit;
	for (uint32_t u = 0; u < config->n_users; u++)
		for (int i = 0; i < QUOTA_KINDS; i++)
			if (config->users[u].uid == uid &&
				config->users[u].quota.limit[i] != QUOTA_UNSAID)
				quota.limit[i] =
					config->users[u].quota.limit[i];
	return quota;
}
