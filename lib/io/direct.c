/* SPDX-License-Identifier: MIT */
/*
 * The alignment that direct I/O needs comes from statx since 6.1, where the
 * file system fills it in; otherwise from the disk below; and otherwise it is
 * unknown, and a page is a safe guess.
 */
#include "lib/io/direct.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/fd.h"

enum { GUESS = 4096 };

static bool is_pow2(uint64_t n)
{
	return n && !(n & (n - 1));
}

/* A partition has no queue directory of its own; its folder is in its disk's.
 */
static uint32_t ask_disk(uint32_t major, uint32_t minor)
{
	static const char *const where[] = {"", "/.."};

	for (size_t i = 0; i < ARRAY_SIZE(where); i++) {
		char path[96], text[32];
		unsigned long n;

		snprintf(path, sizeof(path),
			"/sys/dev/block/%u:%u%s/queue/logical_block_size",
			major, minor, where[i]);
		if (fd_read_text(path, text, sizeof(text)) <= 0)
			continue;
		n = strtoul(text, NULL, 10);
		if (is_pow2(n) && n <= UINT32_MAX)
			return (uint32_t)n;
	}
	return GUESS;
}

struct tarn_direct tarn_direct_ask(int fd)
{
	struct statx st;
	unsigned mask = STATX_TYPE;
	uint32_t n = GUESS;

#ifdef STATX_DIOALIGN
	mask |= STATX_DIOALIGN;
#endif
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, mask, &st) < 0)
		return (struct tarn_direct) {n, n};
#ifdef STATX_DIOALIGN
	if (st.stx_mask & STATX_DIOALIGN) {
		if (st.stx_dio_offset_align == 0)
			return (struct tarn_direct) {0, 0};
		if (!is_pow2(st.stx_dio_offset_align) ||
			!is_pow2(st.stx_dio_mem_align))
			return (struct tarn_direct) {n, n};
		return (struct tarn_direct) {
			.offset = st.stx_dio_offset_align,
			.memory = st.stx_dio_mem_align,
		};
	}
#endif
	n = ask_disk(st.stx_dev_major, st.stx_dev_minor);
	return (struct tarn_direct) {n, n};
}

uint32_t tarn_direct_alignment(int fd)
{
	struct tarn_direct ask = tarn_direct_ask(fd);

	/* Both are powers of two, so the larger serves both. */
	return MAX(ask.offset, ask.memory);
}
