/* SPDX-License-Identifier: MIT */
/*
 * A keeper and a server for tests of the loader: a pool of three segments
 * that both processes map, a socket, a pipe, and the questions that a server
 * asks. The pool is full of 0xa5 wherever nothing was loaded.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/internal.h"

/* Sizes differ so that borders are met at odd places; the pool does not begin
 * at 0, so that an offset taken for an address of the mapping shows. */
#define KIT_SEGMENTS 3
#define KIT_FIRST (1ull << 20)
#define KIT_SIZE (51ull << 20)
#define KIT_CANARY 0xa5

struct kit {
	int sock;
	int pipe; /* read end: ends with the last write of the kernel */
	pid_t pid;
	struct mapped_segment segments[KIT_SEGMENTS];
	struct wire_reader *reader;
	uint64_t next_job;
	uint64_t progress; /* of the last load: bytes told, and how often */
	int n_progress;
	struct msg_filled filled;
	struct msg_identity identity;
	int error; /* of the last L_FAILED */
	char text[1100];
};

/* Does this engine ("uring", "threads") start here? */
bool kit_engine(const char *kind);

void kit_start(struct kit *kit);
/* Closes the socket; the exit status, and the pipe has ended. */
int kit_stop(struct kit *kit);

/* Puts the canary everywhere. */
void kit_wipe(struct kit *kit);
/* A byte of the pool. */
unsigned char kit_byte(const struct kit *kit, uint64_t pool_offset);
/* Are all bytes outside [from, to) as kit_wipe left them? */
bool kit_untouched_outside(const struct kit *kit, uint64_t from, uint64_t to);
/* Do size bytes at pool_offset hold a kit_file's bytes from file_offset on? */
bool kit_holds(const struct kit *kit, uint64_t pool_offset, uint64_t size,
	uint64_t file_offset);
uint64_t kit_hash(const struct kit *kit);

/* A file of that many bytes, each a function of its place; its path. */
const char *kit_file(const char *name, uint64_t size);
/* O_DIRECT too if the file system takes it, else -1. */
int kit_open_direct(const char *path);

/* Sends L_FILE with the descriptors (-1: without); the answer's type. */
int kit_identify(struct kit *kit, uint64_t job, int fd, int direct);
void kit_send_fill(struct kit *kit, uint64_t job, uint64_t alloc_offset,
	uint64_t alloc_size, const struct msg_fill_range *ranges, uint32_t n);
void kit_send_drop(struct kit *kit, uint64_t job);
/* Sends L_FORGET; the answer's type. */
int kit_forget(struct kit *kit, uint32_t segment);
/* The next message that is no L_PROGRESS: its type and job. */
int kit_answer(struct kit *kit, uint64_t *ret_job);
/* L_FILL and its answer. */
int kit_fill(struct kit *kit, uint64_t job, uint64_t alloc_offset,
	uint64_t alloc_size, const struct msg_fill_range *ranges, uint32_t n);

/* Removes the files. */
void kit_clean(void);
