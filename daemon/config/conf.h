/* SPDX-License-Identifier: MIT */
/*
 * The configuration: pools with names, what each user may take, and defaults
 * of the command line's settings. See tarnd.conf(5).
 */
#pragma once

#include <stdio.h>

#include "daemon/config/options.h"
#include "daemon/config/quota_limits.h"
#include "daemon/messages.h"

#define CONFIG_PATH "/etc/tarn/tarnd.conf"

#define POOLS_MAX 64u        /* with names; a quarter of all domains */
#define QUOTA_USERS_MAX 256u /* with a section of their own: DOMAINS_MAX */

struct quota_user {
	uint32_t uid;
	struct quota quota; /* QUOTA_UNSAID where the common one holds */
};

struct config {
	struct pool_spec pools[POOLS_MAX];
	uint32_t n_pools;
	struct quota common; /* of those without a section of their own */
	struct quota_user users[QUOTA_USERS_MAX];
	uint32_t n_users;
};

/* D_SETTINGS: what the server needs of it when it is read again. */
struct msg_settings {
	uint64_t idle_ns;
	struct config config;
};

/*
 * Reads options->config, or nothing if that is NULL. Settings that the command
 * line made stay as they are. An error names file and line, and what would be
 * allowed: -EINVAL; -EACCES, -ENOENT and their like for the file itself.
 */
int config_read(struct options *options, struct config *ret);
/* Prints all settings in the form of a configuration. */
void config_print(
	const struct options *options, const struct config *config, FILE *f);

/* The quota of uid: from its own section, else from the common one. Root and
 * the daemon's own user are bound only by a section of their own. */
struct quota config_quota(const struct config *config, uint32_t uid);
