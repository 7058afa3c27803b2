/* SPDX-License-Identifier: MIT */
/* The resources of which each user may take a limited part. */
#pragma once

#include <stdint.h>

enum quota_kind {
	QUOTA_BYTES,       /* of storages that the user owns */
	QUOTA_STORAGES,    /* entries of tables */
	QUOTA_NAMES,       /* that the user published */
	QUOTA_DESCRIPTORS, /* held for the user: of storages, files of loads */
	QUOTA_CONNECTIONS,
	QUOTA_LOADS,    /* under way */
	QUOTA_REQUESTS, /* bytes of messages, in and out, not yet done with */
	QUOTA_DEVICE,   /* bytes of devices, of storages that the user owns */
	QUOTA_KINDS
};

#define QUOTA_UNSAID UINT64_MAX

struct quota {
	uint64_t limit[QUOTA_KINDS];
};

/* The key of a kind in tarnd.conf: "bytes". */
const char *quota_key(enum quota_kind kind);
