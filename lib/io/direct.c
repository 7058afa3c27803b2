/* SPDX-License-Identifier: MIT */
/*
 * The alignment that direct I/O needs comes from statx since 6.1, where the
 * file system fills it in; otherwise from the disk below; and otherwise it is
 * unknown, and a page is a safe guess.
 */
#include "lib/io/direct.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "lib/io/disk.h"

enum { GUESS = 4096 };

static bool is_pow2(uint64_t n)
{
	return n && !(n & (n - 1));
}

static uint32_t ask_disk(uint32_t major, uint32_t minor)
{
	char text[32];
	unsigned long n;

	if (disk_queue("", major, minor, "logical_block_size", text,
		    sizeof(text)) <= 0)
		return GUESS;
	n = strtoul(text, NULL, 10);
	return is_pow2(n) && n <= UINT32_MAX ? (uint32_t)n : GUESS;
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
