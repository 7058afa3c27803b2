/* SPDX-License-Identifier: MIT */
/* What each user may take of what all share. */
#pragma once

#include <stdint.h>

enum quota_kind {
	QUOTA_BYTES,	   /* of storages that are his */
	QUOTA_STORAGES,	   /* entries of tables */
	QUOTA_NAMES,	   /* of storages that are his */
	QUOTA_DESCRIPTORS, /* held for him: kept memfds, files of loads */
	QUOTA_CONNECTIONS,
	QUOTA_LOADS,	/* under way */
	QUOTA_REQUESTS, /* bytes of messages, in and out, not yet done with */
	QUOTA_KINDS
};

#define QUOTA_UNSAID UINT64_MAX

struct quota {
	uint64_t limit[QUOTA_KINDS];
};

/* The key of a kind in tarnd.conf: "bytes". */
const char *quota_key(enum quota_kind kind);
