/* SPDX-License-Identifier: MIT */
/*
 * The loader's own nouns. One loader (loader.c) has jobs (loader/job.c), each
 * a client's file (loader/file.c), or bytes of the pool (loader/copy.c), and a
 * place in the pool (loader/target.c).
 */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/loop/closer.h"
#include "daemon/messages.h"
#include "lib/io/fill.h"
#include "lib/io/io.h"

/* Jobs that are read at once; others wait. Two files saturate a disk, a few
 * more keep a small one from waiting for a big one; beyond that each gets too
 * few of the TARN_IO_DEPTH requests, and files of the engine run out. */
#define LOADER_PARALLEL 8u

/* Progress is reported once in so many bytes or ns at most: a bar that
 * moves fifty times a second looks smooth. */
#define LOADER_REPORT_BYTES (32ull << 20)
#define LOADER_REPORT_NS 20000000ull

enum loader_job_state {
	JOB_IDENTIFIED, /* waits for L_FILL */
	JOB_WAITING,    /* for one of the LOADER_PARALLEL places */
	JOB_FILLING,
};

struct loader_job {
	struct loader_job *next;
	uint64_t id;
	enum loader_job_state state;
	bool dropped;    /* to be answered with L_DROPPED */
	int buffered_fd; /* -1: its bytes are in the pool: loader/copy.c */
	int direct_fd;   /* -1: none was given */
	bool sealed;     /* no stamp need be compared */
	uint64_t copy_offset;
	bool prompt; /* io_nowait_works */
	struct msg_identity identity;
	struct file_version seen; /* by its client */

	struct msg_fill target;
	struct msg_fill_range ranges[LOAD_RANGES_MAX];
	uint32_t range;               /* that is being filled */
	struct tarn_fill *fill;       /* of it, or of the header before all */
	struct loader_header *header; /* NULL: it was compared */
	bool direct;                  /* all of it so far, as registered */
	bool registered;
	uint64_t done;     /* bytes of the ranges before this one */
	uint64_t reported; /* bytes that the server knows of */
	uint64_t reported_at;
	uint64_t counted; /* bytes whose CPU time was shared out */
	uint64_t cpu_ns;
};

struct loader_process {
	int sock;
	bool ended;            /* the server is gone, or speaks nonsense */
	int status;            /* to exit with */
	struct closer *closer; /* of clients' files */
	struct tarn_io *io;    /* NULL: there is none, see io_error */
	int io_error;
	char io_text[256];
	struct mapped_segment *segments; /* size 0: forgotten */
	uint32_t n_segments;
	bool *registered; /* a segment each; the slot is its number */
	bool *tried;      /* a segment each: to be registered */
	struct loader_pages *pages;
	struct loader_job *jobs; /* in the order they came */
	uint32_t n_filling;
	int patience;      /* ms to wait for completions before messages */
	uint64_t cpu_mark; /* CPU time up to here was shared out */
	int node;          /* on whose CPUs this thread is; -1: on all */
	cpu_set_t all;     /* that it may use; none where that is not known */
};

/* ---- loader.c -------------------------------------------------------- */

void loader_send(struct loader_process *loader, enum daemon_message type,
	const void *body, size_t size);
/* L_FAILED with this thread's last sentence. */
void loader_send_failed(struct loader_process *loader, uint64_t job, int error);

bool loader_has_uring(const struct loader_process *loader);

/* ---- loader/file.c --------------------------------------------------- */

/* Checks the descriptors; -errno and a sentence if they will not do. -ESTALE:
 * the file is not the version that was seen. */
int loader_identify(int buffered_fd, int direct_fd,
	const struct file_version *seen, struct msg_identity *ret);
/* 0 if the file still is what it was, else -EBUSY and what changed. */
int loader_unchanged(
	int buffered_fd, int direct_fd, const struct msg_identity *was);

/* ---- loader/writers.c ------------------------------------------------ */

enum loader_writers {
	WRITERS_NONE,
	WRITERS_SOME,
	WRITERS_UNKNOWN, /* the kernel cannot tell this process */
};

enum loader_writers loader_writers(int fd);

/* ---- loader/header.c ------------------------------------------------- */

/* Begins to read the header that was seen, as job->fill. */
int header_begin(struct loader_process *loader, struct loader_job *job);
/* That fill has ended: 1, another is begun; 0, it is the header that was seen;
 * -ESTALE, it is not; or another error. */
int header_go_on(struct loader_process *loader, struct loader_job *job);
/* Takes NULL and returns NULL. */
struct loader_header *header_free(struct loader_header *header);

/* ---- loader/copy.c --------------------------------------------------- */

/* Has it no file? */
bool copy_is(const struct loader_job *job);
/* How many are under way, for which there is something to do without an event? */
unsigned copies_going_on(const struct loader_process *loader);
/* May the bytes be read, and written where they say? */
int copy_check(
	const struct loader_process *loader, const struct loader_job *job);
void copy_begin(struct loader_process *loader, struct loader_job *job);
/* Some more of its bytes: 0, those were the last; or 1. */
int copy_step(struct loader_process *loader, struct loader_job *job);

/* ---- loader/target.c ------------------------------------------------- */

/* Are all bytes of [at, end) of the pool in segments that are mapped here? */
bool loader_has_mapped(
	const struct loader_process *loader, uint64_t at, uint64_t end);
/* The byte of the pool, which is mapped; *n is reduced to what follows it in
 * one piece. */
void *loader_bytes_at(
	const struct loader_process *loader, uint64_t at, uint64_t *n);
/* Those bytes of the pool are about to be written: pages_want. */
void loader_want_pages(
	struct loader_process *loader, uint64_t at, uint64_t size);

/* May the ranges be read, and written where they say? */
int loader_check_target(const struct loader_process *loader,
	const struct msg_identity *file, const struct msg_fill *target,
	const struct msg_fill_range *ranges);
/* A fill of range i of a job, its segments registered where possible. */
int loader_fill_range(struct loader_process *loader,
	const struct loader_job *job, uint32_t i, struct tarn_fill **ret);
/* Registers one more segment, all pages of which are here; false: there is
 * none. For when nothing is being read: it stops the thread for 60 ms a GiB. */
bool loader_register_next(struct loader_process *loader);
/* Zeroes what no range has filled: the first and last page, above all, may
 * hold what another user left there. Nothing of the job is in flight. */
void loader_zero_rest(
	const struct loader_process *loader, const struct loader_job *job);

/* Moves this thread to the CPUs of the node that a job fills, if it is one. */
void loader_go_near(
	struct loader_process *loader, const struct loader_job *job);

/* L_FORGET. */
void loader_forget(
	struct loader_process *loader, const struct wire_message *message);

/* ---- loader/pages.c -------------------------------------------------- */

int pages_new(uint32_t n_segments, struct loader_pages **ret);
/* Waits for its threads. Takes NULL and returns NULL. */
struct loader_pages *pages_free(struct loader_pages *pages);
/* Bytes are about to be read into [from, to) of a segment: its pages are made
 * in the background, those first, on the CPUs of that node (-1: any). Nothing
 * happens the second time. */
void pages_want(struct loader_pages *pages, uint32_t segment, int node,
	void *addr, uint64_t size, uint64_t from, uint64_t to);
/* All pages of the segment are cleared and in our tables. */
bool pages_are_here(struct loader_pages *pages, uint32_t segment);
/* Some wanted segment's are not yet. */
bool pages_are_coming(struct loader_pages *pages);
/* Afterwards it may be unmapped. */
void pages_forget(struct loader_pages *pages, uint32_t segment);

/* ---- loader/job.c ---------------------------------------------------- */

void job_file(struct loader_process *loader, struct wire_message *message);
void job_fill(
	struct loader_process *loader, const struct wire_message *message);
void job_drop(
	struct loader_process *loader, const struct wire_message *message);
/* Takes up what has landed, starts what waits, queues more requests. */
void jobs_advance(struct loader_process *loader);
/* Stops them all; true when nothing is in flight and all are gone. */
bool jobs_end(struct loader_process *loader);
