/* SPDX-License-Identifier: MIT */
/*
 * A daemon that can be upgraded: it is started as a copy in the test's folder,
 * which is replaced by rename, so that no write follows a link out of there or
 * changes a running program.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <tarn/report.h>
#include <tarn/tarn.h>

#include "tests/kit/restart.h"

extern struct daemon daemon_;
extern tarn_store *store; /* of that daemon */

/* Bail out if it does not work; upgrade_end is a test. */
void upgrade_begin(void);
void upgrade_begin_with(const char *const args[]); /* of tarnd, at most 4 */
void upgrade_end(void);

/* SIGUSR2, and waits until it has come about. */
void upgrade(void);
/* Waits until the daemon has been upgraded so many times. */
bool upgraded(uint32_t times);
struct tarn_report_daemon report(void);

/* The program at the path from which the daemon was started. */
void program_install(const void *bytes, size_t size, mode_t mode);
void program_restore(void);
void program_remove(void);

/* A file of that seed, as NAME/x. */
void load_file(const char *name, uint32_t seed, uint64_t size);
/* Waits until no more bytes than that are taken for segments. */
bool taken_becomes(uint64_t most);
