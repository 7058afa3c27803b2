/* SPDX-License-Identifier: MIT */
/*
 * The soak: what its processes agree on.
 *
 * A board in memory that they inherit has a row for each name. A name belongs
 * to one worker; it raises begun, changes the store, and sets done to the same
 * number. A process that reads done, looks the name up, and then reads begun
 * must find a state between the two: the tensor of such a number, or no tensor
 * if one of these numbers is a removal. So a worker may be killed anywhere, and
 * nothing that was published may be lost, changed or late.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <tarn/publish.h>

#define SOAK_WORKERS 4
#define SOAK_GROUPS 16 /* a worker; each is published as a set */
#define SOAK_SET 4     /* names */
#define SOAK_NAMES (SOAK_WORKERS * SOAK_GROUPS * SOAK_SET)
#define SOAK_FILES 3
#define SOAK_PATIENCE_MS 120000 /* for what takes long on a busy machine */
#define SOAK_HELD 24 /* tensors that a worker keeps, and reads again */

struct soak_row {
	_Atomic uint64_t begun;
	_Atomic uint64_t done;
};

struct soak_worker {
	pid_t pid;             /* the parent's business */
	_Atomic uint64_t beat; /* ms, when it last did something */
	_Atomic uint64_t opens;
	_Atomic uint64_t publishes;
	_Atomic uint64_t lookups;
	_Atomic uint64_t loads;
	_Atomic uint64_t retries; /* calls that ended with a clear error */
};

struct soak_board {
	char socket[108];
	char files[SOAK_FILES][128];
	_Atomic bool stop;
	_Atomic uint32_t faults;
	char fault[256]; /* the first one */
	struct soak_worker workers[SOAK_WORKERS];
	struct soak_row rows[SOAK_NAMES];
};

/* Does what workers do until it is killed or board->stop. */
_Noreturn void soak_work(struct soak_board *board, unsigned me, uint64_t seed);

/* Something that must not be; the first one is told. */
void soak_fault(struct soak_board *board, const char *format, ...)
	__attribute__((__format__(printf, 2, 3)));

uint64_t soak_now_ms(void);
uint64_t soak_random(uint64_t *state);

void soak_name(unsigned row, char name[32]);
/* Every eighth change of a name is its removal. */
static inline bool soak_is_removal(uint64_t number)
{
	return number % 8 == 7;
}

/* What the tensor of a row's number is made of, in 64-bit words. */
uint64_t soak_size(unsigned row, uint64_t number);
void soak_fill(uint64_t *words, uint64_t n, unsigned row, uint64_t number);
/* 0 with the number that it says it is; or an errno: not what was written. */
int soak_verify(const tarn_tensor *tensor, unsigned row, uint64_t *ret_number);

/* Looks the row up in that store: 1 as it must be, 0 the call failed. *ret may
 * be NULL, or receives the tensor. */
int soak_look(struct soak_board *board, tarn_store *store, unsigned row,
	tarn_tensor **ret);
