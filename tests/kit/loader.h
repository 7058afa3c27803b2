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

#include "daemon/messages.h"

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
	uint64_t next_job;
	uint64_t progress; /* of the last load: bytes told, and how often */
	int n_progress;
	struct msg_filled filled;
	struct msg_identity identity;
	struct file_version seen; /* what kit_loader_identify says of it */
	int error;                /* of the last L_FAILED */
	char text[1100];
};

/* Does this engine ("io_uring", "threads") start here? */
bool kit_loader_engine(const char *kind);

void kit_loader_start(struct kit *kit);
/* Closes the socket; the exit status, and the pipe has ended. */
int kit_loader_stop(struct kit *kit);

/* Puts the canary everywhere. */
void kit_loader_wipe(struct kit *kit);
/* A byte of the pool. */
unsigned char kit_loader_byte(const struct kit *kit, uint64_t pool_offset);
/* Are all bytes outside [from, to) as kit_loader_wipe left them? */
bool kit_loader_untouched_outside(
	const struct kit *kit, uint64_t from, uint64_t to);
/* Do size bytes at pool_offset hold a kit_loader_file's bytes from file_offset
 * on? */
bool kit_loader_holds(const struct kit *kit, uint64_t pool_offset,
	uint64_t size, uint64_t file_offset);
uint64_t kit_loader_hash(const struct kit *kit);

/* A file of that many bytes, each a function of its place; its path. */
const char *kit_loader_file(const char *name, uint64_t size);
/* O_DIRECT too if the file system takes it, else -1. */
int kit_loader_open_direct(const char *path);

/* Sends L_FILE with the descriptors (-1: without); the answer's type. */
int kit_loader_identify(struct kit *kit, uint64_t job, int fd, int direct);
/* The same for bytes of the pool that are to be copied. */
int kit_loader_identify_copy(
	struct kit *kit, uint64_t job, uint64_t offset, uint64_t size);
void kit_loader_send_fill(struct kit *kit, uint64_t job, uint64_t alloc_offset,
	uint64_t alloc_size, const struct msg_fill_range *ranges, uint32_t n);
void kit_loader_send_drop(struct kit *kit, uint64_t job);
/* Sends L_FORGET; the answer's type. */
int kit_loader_forget(struct kit *kit, uint32_t segment);
/* The next message that is no L_PROGRESS: its type and job. */
int kit_loader_answer(struct kit *kit, uint64_t *ret_job);
/* L_FILL and its answer. */
int kit_loader_fill(struct kit *kit, uint64_t job, uint64_t alloc_offset,
	uint64_t alloc_size, const struct msg_fill_range *ranges, uint32_t n);

/* Removes the files. */
void kit_loader_clean(void);
