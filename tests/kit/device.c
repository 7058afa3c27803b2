/* SPDX-License-Identifier: MIT */
/* See device.h. */
#include "tests/kit/device.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/tensor/tensor.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

struct device_memory {
	int fd;
	void *addr;
	uint64_t size;
};

const uint8_t kit_device_uuid[16] = {
	0xfa, 0xce, 0x0f, 0xf0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
atomic_uint kit_device_exports, kit_device_imports, kit_device_live;

/* Takes fd. */
static int map(int fd, uint64_t size, struct device_memory **ret)
{
	struct device_memory *m = malloc(sizeof(*m));

	if (!m)
		bail("out of memory");
	*m = (struct device_memory) {.fd = fd, .size = size};
	m->addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (m->addr == MAP_FAILED) {
		close(fd);
		free(m);
		return tarn_fail(EIO, "the stand-in cannot map its memory");
	}
	atomic_fetch_add(&kit_device_live, 1);
	*ret = m;
	return 0;
}

static int export_memory(struct device_memory *m, struct device_export *ret)
{
	ret->fd = fd_dup(m->fd);
	if (ret->fd < 0)
		return tarn_fail(-ret->fd, "the stand-in cannot export");
	ret->size = m->size;
	memcpy(ret->uuid, kit_device_uuid, sizeof(ret->uuid));
	atomic_fetch_add(&kit_device_exports, 1);
	return 0;
}

static int import_memory(
	const struct device_export *from, struct device_memory **ret)
{
	int fd;

	if (memcmp(from->uuid, kit_device_uuid, sizeof(from->uuid)) != 0)
		return tarn_fail(ENODEV, "the stand-in has no such device");
	fd = fd_dup(from->fd);
	if (fd < 0)
		return tarn_fail(-fd, "the stand-in cannot import");
	atomic_fetch_add(&kit_device_imports, 1);
	return map(fd, from->size, ret);
}

static void release(struct device_memory *m)
{
	munmap(m->addr, m->size);
	close(m->fd);
	free(m);
	atomic_fetch_sub(&kit_device_live, 1);
}

static int read_memory(
	struct device_memory *m, uint64_t offset, void *buf, uint64_t size)
{
	memcpy(buf, (const char *)m->addr + offset, size);
	return 0;
}

static int where(struct device_memory *m, struct device_bytes *ret)
{
	(void)m;
	(void)ret;
	return tarn_fail(ENOTSUP, "the stand-in copies nothing");
}

void kit_device_begin(void)
{
	static const struct device_hooks hooks = {
		.export_memory = export_memory,
		.import_memory = import_memory,
		.release = release,
		.where = where,
		.read = read_memory,
	};

	device_hooks_set(&hooks);
}

static struct device_memory *memory_of(const tarn_tensor *t)
{
	struct device_memory *m;

	must(device_storage_memory(tarn_tensor_storage(t), &m));
	return m;
}

unsigned char *kit_device_bytes(const tarn_tensor *t)
{
	return memory_of(t)->addr;
}

tarn_tensor *kit_device_empty(int64_t size)
{
	int fd = fd_memory("device");
	struct device_memory *m;
	struct tarn_layout layout;
	tarn_storage *storage;
	tarn_tensor *t;

	if (fd < 0 || ftruncate(fd, size) < 0)
		bail("a memfd: %m");
	must(map(fd, (uint64_t)size, &m));
	must(device_storage_new(
		kit_device_uuid, (uint64_t)size, true, m, &storage));
	must(tarn_layout_contiguous(TARN_U8, 1, &size, &layout));
	must(tarn_tensor_new(storage, 0, &layout, &t));
	tarn_storage_unref(storage);
	return t;
}

tarn_tensor *kit_device_tensor(int64_t size, unsigned seed)
{
	tarn_tensor *t = kit_device_empty(size);
	unsigned char *p = kit_device_bytes(t);

	for (int64_t i = 0; i < size; i++)
		p[i] = (unsigned char)(seed + i);
	return t;
}

bool kit_device_has(const tarn_tensor *t, unsigned seed)
{
	const unsigned char *p = kit_device_bytes(t);
	uint64_t size = tarn_storage_size(tarn_tensor_storage(t));

	for (uint64_t i = 0; i < size; i++)
		if (p[i] != (unsigned char)(seed + i))
			return false;
	return size > 0;
}

uint64_t kit_device_inode(const tarn_tensor *t)
{
	struct stat st;

	if (fstat(memory_of(t)->fd, &st) < 0)
		bail("fstat: %m");
	return st.st_ino;
}
