/* SPDX-License-Identifier: MIT */
/*
 * Pools that users share, as several users see them: a folder that all users
 * may enter with a daemon, its configuration, its log and tensor files in it;
 * and children that run as other users.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <tarn/tarn.h>

#include "tests/kit/daemon_helper.h"

/* Uids that no other user here has: numbers, no names. */
enum {
	OWNER = 61001,
	MEMBER = 61002,   /* of GROUP as a further group */
	RELATIVE = 61003, /* of GROUP as its first */
	STRANGER = 61004,
	GROUP = 62001,
	OTHER_GROUP = 62002,
	OVERFLOW = 65534,
};

struct pool_kit {
	char folder[64]; /* 0755 */
	char conf[96], log[96];
	struct daemon daemon;
};

/* The result of a child, in memory that it shares with the test. */
struct seen {
	int r;
	char text[600];
	uint64_t n;
	unsigned char bytes[64];
};

/* Writes the configuration, without starting anything. */
void kit_pool_configure(struct pool_kit *kit, const char *conf);
void kit_pool_start(struct pool_kit *kit, const char *conf);
/* The daemon's exit status; the folder is gone. */
int kit_pool_stop(struct pool_kit *kit);
/* Does a line of the daemon's log have this? Waits for it. */
bool kit_pool_logs(const struct pool_kit *kit, const char *part);

/* A safetensors file with one U8 tensor "t" of that many bytes, all of that
 * value; readable by everybody; static. skew bytes more in its header, so
 * that its data lies elsewhere in a page. */
const char *kit_pool_file(const struct pool_kit *kit, const char *name,
	uint64_t size, unsigned char value, unsigned skew);

/* Could that be written, by a map or a call? And if it is opened anew? */
bool kit_pool_writes(int fd);
bool kit_pool_writes_reopened(int fd);

/* Can this process be several users? */
bool kit_pool_is_root(void);
/* As fork(); the child is that user. */
pid_t kit_pool_fork(uint32_t uid);
/* fn, in a child that is that user; what it saw. */
const struct seen *kit_pool_as(const struct pool_kit *kit, uint32_t uid,
	void (*fn)(const struct pool_kit *kit, struct seen *seen, void *arg),
	void *arg);
/* The sentence of the last failure, and r. */
void seen_error(struct seen *seen, int r);
