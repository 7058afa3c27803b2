/* SPDX-License-Identifier: MIT */
#include "tests/kit/tool_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/kit/tap.h"

void tool_open(int argc, char **argv, tarn_storage *ret_storages[2])
{
	int fd = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	struct stat st;
	void *data;

	if (fd < 0 || fstat(fd, &st) < 0)
		bail("usage: %s FILE", argv[0]);
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED ||
		tarn_storage_borrow(data, (uint64_t)st.st_size, 0, NULL, NULL,
			&ret_storages[0]) < 0 ||
		tarn_storage_from_fd(
			fd, 0, (uint64_t)st.st_size, &ret_storages[1]) < 0)
		bail("%s: %m", argv[1]);
}

void tool_close(tarn_storage *const storages[2])
{
	tarn_storage_unref(storages[0]);
	tarn_storage_unref(storages[1]);
}
