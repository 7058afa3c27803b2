/* SPDX-License-Identifier: MIT */
/*
 * tarn doctor: what this machine offers to tarn, and what would make it offer
 * more.
 *
 * What system calls answered lies in a struct machine; everything else is read
 * from /proc and /sys, which are looked up below its root. So a test can make
 * up a machine. The findings go into a list, which is printed when it is whole.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/utsname.h>

#include "base/cleanup.h"
#include "lib/cuda/cuda.h"

/* ---- findings ------------------------------------------------------------ */

enum worth {
	WORTH_GOOD,
	WORTH_COSTS,   /* tarn works, at a price */
	WORTH_BROKEN,  /* something that tarn does fails */
	WORTH_UNKNOWN, /* it cannot be found out here */
	WORTHS,
};

/* Groups and keys never change: programs read them. */
struct finding {
	const char *group;
	const char *key;
	const char *path; /* what a finding about files is about; else NULL */
	enum worth worth;
	char value[1024];
	const char *cost; /* one sentence; NULL: nothing */
	char remedy[512]; /* a command or a setting; "": there is none */
};

struct findings {
	struct finding *at;
	size_t n;
};

void findings_free(struct findings *findings);
#define _cleanup_findings_ _cleanup_(findings_free)

/* Adds one, good so far; valid until the next is added. */
struct finding *found(struct findings *findings, const char *group,
	const char *key, const char *fmt, ...) _printf_(4, 5);

/* Adds one that cannot be found out; the text says why. */
struct finding *found_unknown(struct findings *findings, const char *group,
	const char *key, const char *fmt, ...) _printf_(4, 5);

/* It is not good: what that costs, and what changes it. */
void advise(struct finding *finding, enum worth worth, const char *cost,
	const char *fmt, ...) _printf_(4, 5);

size_t findings_count(const struct findings *findings, enum worth worth);

/* cli/doctor/output.c */
void findings_print(const struct findings *findings);
struct json_t *findings_json(const struct findings *findings);

/* ---- the machine --------------------------------------------------------- */

struct engine_facts {
	int uring; /* of setting up a ring: 0 or -errno */
	char uring_why[256];
	int any; /* of the engine that tarn would use: 0 or -errno */
	char name[16];
	char why[256]; /* why it is no better one, or none */
	int read;      /* bytes that it read of a page, or -errno */
};

struct cuda_facts {
	bool library; /* libcuda.so.1 is there */
	int init;     /* of cuInit: 0, or CUDA's number */
	int version;  /* 12040 is 12.4 */
	int devices;
	int n_traits; /* of the first of these; 0: tarn was built without */
	struct cuda_traits traits[CUDA_DEVICES_MAX];
};

struct machine {
	const char *root;   /* "" outside of tests */
	char process[16];   /* whose limits count: "self", or tarnd's pid */
	bool registers;     /* of a daemon's pool: tarn_report_nodes */
	bool places_memory; /* mbind and move_pages are allowed */
	bool collapses;     /* huge pages on request: shmem_collapses() */
	struct utsname uts;
	struct engine_facts engine;
	struct cuda_facts cuda;
};

/* Asks what takes a system call. */
void engine_ask(struct engine_facts *ret);
void cuda_ask(struct cuda_facts *ret);

/* A file below the root, without the newline at its end; the length, or
 * -errno. */
ssize_t machine_read(const struct machine *machine, char *buf, size_t size,
	const char *fmt, ...) _printf_(4, 5);

/* What follows those words, and blanks, on the first line that has them, or
 * with "^" before them begins with them. 0, or -errno. */
int machine_line(const struct machine *machine, const char *path,
	const char *words, char *buf, size_t size);

/* The same in the process's own folder: "limits", "status". */
int machine_process_line(const struct machine *machine, const char *file,
	const char *words, char *buf, size_t size);

/* "", or " (of tarnd)", behind a limit of that process. */
const char *machine_whose(const struct machine *machine);

/* "123 kB" behind those words, in bytes. */
int machine_kib(const struct machine *machine, const char *path,
	const char *words, uint64_t *ret);

/* The least number above after in "0-3,8"; -1: there is none. */
int list_next(const char *list, int after);

/* The hard limit, to which tarnd raises the soft one, on that line of the
 * process's limits. UINT64_MAX: unlimited. */
int machine_limit(
	const struct machine *machine, const char *words, uint64_t *ret);

/* ---- what is looked at, a file of this folder each ----------------------- */

/* First: it finds out the process. */
void find_daemon(
	struct findings *findings, struct machine *machine, const char *socket);
void find_system(struct findings *findings, const struct machine *machine);
void find_reading(struct findings *findings, const struct machine *machine);
void find_memory(struct findings *findings, const struct machine *machine);
void find_pages(struct findings *findings, const struct machine *machine);
void find_nodes(struct findings *findings, const struct machine *machine);
void find_gpu(struct findings *findings, const struct machine *machine);
/* The last two are about a path; a disk is named by its device number. */
void find_disk(struct findings *findings, const struct machine *machine,
	const char *path, unsigned major, unsigned minor);
void find_files(struct findings *findings, const struct machine *machine,
	const char *path);
