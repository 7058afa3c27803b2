/* SPDX-License-Identifier: MIT */
/*
 * Two processes on two processors, and the cheapest ways of signalling between
 * them: a cache line that both write in turn, and a futex. They are the
 * reference for channels and rings.
 */
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* Two lines: the neighbour of one is fetched with it. */
struct line {
	_Alignas(128) _Atomic uint32_t word;
};

static inline void line_send(struct line *line, bool futex, uint32_t turn)
{
	/* Release: pairs with the acquire in line_receive(). */
	atomic_store_explicit(&line->word, turn, memory_order_release);
	if (futex)
		syscall(SYS_futex, &line->word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Waits for that turn: looking again and again, or asleep. */
static inline void line_receive(struct line *line, bool futex, uint32_t turn)
{
	uint32_t seen;

	/* Acquire: pairs with the release in line_send(). */
	while ((seen = atomic_load_explicit(
			&line->word, memory_order_acquire)) != turn)
		if (futex)
			syscall(SYS_futex, &line->word, FUTEX_WAIT, seen, NULL,
				NULL, 0);
}
