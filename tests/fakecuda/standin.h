/* SPDX-License-Identifier: MIT */
/*
 * What the files of the stand-in share.
 *
 * One lock guards all of it. Each function of the driver takes it by begin() and
 * releases it by end(); one thread carries out queued work, with the lock held
 * while it does. A wait for work releases the lock meanwhile.
 */
#pragma once

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The library exports the driver's functions and those of fakecuda.h. */
#pragma GCC visibility push(hidden)

#define DEVICES 64

/* ---- account.c: settings, faults ----------------------------------------- */

/* A setting of one device, or of all; device -1: of all. */
long setting(const char *name, int device, long otherwise);

/* First and last in each function. begin fails in a child of fork(). */
CUresult begin(void);
CUresult end(CUresult e);

/* Counts a call of the function with that name. The result is the error that it
 * shall return: the device (-1: none) is lost, its work has failed, or the
 * settings say so. */
CUresult refused(const char *name, int device);

/* The error by which work in the device's context has failed; 0: none has. */
CUresult broken(int device);
void set_broken(int device, CUresult e);

void account_fault(const char *fmt, ...)
	__attribute__((__format__(printf, 1, 2)));

/* A wait, with the lock, until something has changed or that time has come, in
 * ns of CLOCK_MONOTONIC; 0: for ever. And the word that it has. */
void await_change(uint64_t until);
void tell_change(void);
/* For the thread that works. */
void lock_account(void);
void unlock_account(void);

/* ---- devices.c ----------------------------------------------------------- */

/* The device whose context is current in this thread; or -1. */
int current_device(void);
/* -1: it is not a context of the stand-in. */
int device_of(CUcontext context);
CUcontext context_of(int device);
int device_count(void);
void judge_devices(void);

/* ---- host.c: registered memory ------------------------------------------- */

struct registration {
	struct registration *next;
	uintptr_t start;
	size_t size;
	unsigned flags;
	int device; /* whose context registered it */
};

/* The registration with any of those bytes; NULL: none. */
const struct registration *registration_of(uintptr_t start, size_t size);
void judge_host(void);

/* ---- memory.c, mappings.c: memory of devices ----------------------------- */

#define GRANULARITY ((size_t)2 << 20)

struct memory {
	struct memory *next;
	int fd, device;
	size_t size;
	bool created; /* by this process, which it is charged to */
	bool held;    /* by its handle */
	unsigned mappings;
};

/* NULL, and a fault: it is not the handle of one. */
struct memory *memory_of(CUmemGenericAllocationHandle handle);
/* Frees it if neither a handle nor a mapping is left. */
void drop_unused(struct memory *memory);

struct mapping {
	struct mapping *next;
	uintptr_t start;
	size_t size;
	struct memory *memory;
	int device; /* of the memory */
	uint8_t access[DEVICES];
};

/* The mapping with that byte, by its host address; NULL: none. */
const struct mapping *mapping_of(uintptr_t at);
void judge_memory(void);
void judge_mappings(void);

/* ---- space.c: addresses -------------------------------------------------- */

enum place {
	PLACE_NONE,       /* not memory that may be used so */
	PLACE_DEVICE,     /* mapped, with access */
	PLACE_REGISTERED, /* of the host, by either of its addresses */
	PLACE_PAGEABLE,   /* another address of the host: taken as it is */
};

/* What those bytes are for work of that device, and where the host has them.
 * peer: access of the memory's own device is enough. */
enum place place_of(uint64_t at, size_t size, int device, bool writes,
	bool peer, char **ret_host);

/* ---- streams.c, events.c: queued work ------------------------------------ */

struct stream {
	struct stream *next;
	int device;
	unsigned flags;
	bool alive;
	struct item *first, **last;
};

struct event {
	struct event *next;
	int device;
	bool alive;
	uint64_t recorded, done;
};

struct item {
	struct item *next;
	int device;
	void (*run)(struct item *item);
	void *owned;         /* freed after it */
	struct event *event; /* recorded, or awaited */
	uint64_t serial;
	bool awaits;
	/* Set when it is queued. */
	uint64_t late; /* ns */
	CUresult fails;
	uint64_t due; /* 0: it has not started */
};

/* The stream of that handle; NULL: the current context's own. */
CUresult stream_find(CUstream handle, struct stream **ret);
/* The same, which must belong to the current context. */
CUresult stream_use(CUstream handle, struct stream **ret);
/* Takes the item over. */
void stream_queue(struct stream *stream, struct item *item);
/* Waits until all that is queued has been done. */
void stream_drain(struct stream *stream);
/* Streams, events and items of the device that are still there. */
int count_work(int device);
void judge_streams(void);
int count_events(int device);
void judge_events(void);
/* With the lock, which it releases meanwhile: ends the thread. */
void stop_work(void);

/* ---- modules.c ----------------------------------------------------------- */

int count_modules(int device);
void judge_modules(void);

#pragma GCC visibility pop
