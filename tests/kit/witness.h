/* SPDX-License-Identifier: MIT */
/*
 * The innocent client: an ordinary store on the same daemon, which sees
 * whether it is still served while others do harm; and the daemon's books,
 * which must be as they were when the harm is over.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <tarn/tarn.h>

#include "tests/kit/daemon_helper.h"

struct witness {
	const struct daemon *daemon;
	tarn_store *store;
	tarn_tensor *tensor; /* "innocent" */
	struct tarn_report_daemon before;
	int server_fds, loader_fds; /* -1: they cannot be counted */
};

/* Publishes "innocent" and writes down how things are. */
void witness_begin(struct witness *w, const struct daemon *daemon);
/* The same, where so many other clients are there, and stay. */
void witness_begin_beside(
	struct witness *w, const struct daemon *daemon, unsigned others);
/* A test: status and a name, before the library gives up, and the right bytes. */
bool witness_is_served(struct witness *w, const char *while_what);
/* A test: loads a file of its own, and finds its bytes. */
bool witness_can_load(struct witness *w, const char *while_what);
/* Tests: used, storages, names, loads and clients are what they were, or come
 * back to it; so do the descriptors of server and loader. */
void witness_compare(struct witness *w);
/* The same, then lets go. */
void witness_end(struct witness *w);

struct tarn_report_daemon witness_status(struct witness *w);
/* Waits until so many bytes are used: true if it came to that. */
bool witness_sees_used(struct witness *w, uint64_t used);

/* The daemon's child of that name ("tarn-loader"), the newest; 0. */
pid_t child_named(pid_t keeper, const char *name);
/* Waits until a process that was sent SIGSTOP has stopped. */
void wait_stopped(pid_t pid);
/* How many there are, and the newest. */
unsigned children_named(pid_t keeper, const char *name, pid_t *ret_newest);

/* A file in the test's folder, each byte a function of its place and seed;
 * its path, static until eight more were made. */
const char *made_file(const char *name, uint64_t size, uint32_t seed);
unsigned char made_byte(uint64_t at, uint32_t seed);
/* O_RDONLY, and O_RDONLY | O_DIRECT (-1 where that is not to be had). */
int opened(const char *path);
int opened_direct(const char *path);
void remove_files(void);
