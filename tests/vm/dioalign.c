/* SPDX-License-Identifier: MIT */
/*
 * dioalign PATH: what statx(2) says of direct I/O, as the kernel says it:
 * "OFFSET MEMORY", or "unknown".
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

int main(int argc, char **argv)
{
#ifdef STATX_DIOALIGN
	struct statx st;

	if (argc != 2 || statx(AT_FDCWD, argv[1], 0, STATX_DIOALIGN, &st) < 0)
		return 1;
	if (st.stx_mask & STATX_DIOALIGN) {
		printf("%u %u\n", st.stx_dio_offset_align,
			st.stx_dio_mem_align);
		return 0;
	}
#endif
	(void)argc;
	(void)argv;
	puts("unknown");
	return 0;
}
