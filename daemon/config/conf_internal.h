/* SPDX-License-Identifier: MIT */
/* Declarations that the files about the configuration share. */
#pragma once

#include "daemon/config/conf.h"

/* Sets one key of a section: -EINVAL with a sentence that names what is
 * allowed,
 * -ENOENT without one when there is no such key. */
int config_pool_key(struct pool_spec *pool, const char *key, const char *value);
int config_quota_key(struct quota *quota, const char *key, const char *value);

/* The policy of a pool whose section has no node. */
#define PLACE_UNSAID UINT8_MAX
/* The flags of a pool whose section has no register. */
#define FLAGS_UNSAID UINT16_MAX

/* A pool before its section is read; its name must be checked. */
int config_pool_begin(struct pool_spec *pool, const char *name);
/* Checks that the keys fit together; sets the default of a missing group. */
int config_pool_end(struct pool_spec *pool);

/* By name or number: -EINVAL with a sentence. */
int config_user(const char *name, uint32_t *ret);

/* The keys that a section may have, for people. */
extern const char config_pool_keys[], config_quota_keys[];
