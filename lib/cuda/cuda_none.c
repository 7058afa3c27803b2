/* SPDX-License-Identifier: MIT */
/* Built without the CUDA Toolkit's header: there are no devices. */
#include "base/fail.h"
#include "lib/cuda/cuda.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/work.h"

static int not_built(void)
{
	return tarn_fail_constant(ENOTSUP,
		"this tarn was built without support for GPUs; configure it "
		"with the CUDA Toolkit's cuda.h (--with-cuda=FOLDER)");
}

bool cuda_is_built(void)
{
	return false;
}

int cuda_device_find(const char *name, uint8_t ret_uuid[16])
{
	(void)name;
	(void)ret_uuid;
	return not_built();
}

int cuda_device_traits(int index, struct cuda_traits *ret)
{
	(void)index;
	(void)ret;
	return not_built();
}

int cuda_known(const void *start, uint64_t size, bool writable,
	const uint8_t uuid[16], uint64_t *ret)
{
	(void)start;
	(void)size;
	(void)writable;
	(void)uuid;
	(void)ret;
	return not_built();
}

int cuda_needs_writable(
	const void *start, uint64_t size, const uint8_t uuid[16])
{
	(void)start;
	(void)size;
	(void)uuid;
	return not_built();
}

int cuda_reach(
	const void *start, uint64_t size, bool writable, const uint8_t uuid[16])
{
	(void)start;
	(void)size;
	(void)writable;
	(void)uuid;
	return not_built();
}

void cuda_forget(const void *start, uint64_t size)
{
	(void)start;
	(void)size;
}

void cuda_watch_forks(void)
{
}

/* ---- devices are never used: the rest is not called ---------------------- */

int cuda_use(const uint8_t uuid[16], struct cuda_device **ret)
{
	(void)uuid;
	(void)ret;
	return not_built();
}

void cuda_unuse(struct cuda_device *device)
{
	(void)device;
}

int cuda_usable(void)
{
	return not_built();
}

const uint8_t *cuda_uuid(const struct cuda_device *device)
{
	return (const uint8_t *)device;
}

int cuda_index(const struct cuda_device *device)
{
	(void)device;
	return 0;
}

int cuda_queue_new(struct cuda_device *device, struct cuda_queue **ret)
{
	(void)device;
	(void)ret;
	return not_built();
}

struct cuda_queue *cuda_queue_free(struct cuda_queue *queue)
{
	(void)queue;
	return NULL;
}

int cuda_queue_after(struct cuda_queue *queue, void *stream)
{
	(void)queue;
	(void)stream;
	return not_built();
}

int cuda_queue_mark(struct cuda_queue *queue, int mark)
{
	(void)queue;
	(void)mark;
	return not_built();
}

int cuda_queue_done(struct cuda_queue *queue, int mark)
{
	(void)queue;
	(void)mark;
	return not_built();
}

int cuda_queue_wait(struct cuda_queue *queue, int mark)
{
	(void)queue;
	(void)mark;
	return not_built();
}

int cuda_queue_bytes(
	struct cuda_queue *queue, uint64_t dst, uint64_t src, uint64_t size)
{
	(void)queue;
	(void)dst;
	(void)src;
	(void)size;
	return not_built();
}

int cuda_queue_move(struct cuda_queue *queue, const struct move *move,
	uint64_t dst, uint64_t src, uint64_t factors,
	const struct cuda_host *host)
{
	(void)queue;
	(void)move;
	(void)dst;
	(void)src;
	(void)factors;
	(void)host;
	return not_built();
}

int cuda_queue_wait_briefly(struct cuda_queue *queue, int mark)
{
	(void)queue;
	(void)mark;
	return not_built();
}

bool cuda_moves(struct cuda_device *device, const struct move *move)
{
	(void)device;
	(void)move;
	return false;
}

uint64_t cuda_factors_size(const struct move *move)
{
	(void)move;
	return 0;
}

void cuda_factors(const struct move *move, void *ret)
{
	(void)move;
	(void)ret;
}

int cuda_slot_take(
	struct cuda_device *device, bool must, struct cuda_slot **ret)
{
	(void)device;
	(void)must;
	(void)ret;
	return not_built();
}

void cuda_slot_give(struct cuda_device *device, struct cuda_slot *slot)
{
	(void)device;
	(void)slot;
}

void *cuda_slot_memory(const struct cuda_slot *slot)
{
	(void)slot;
	return NULL;
}

int cuda_slot_for(
	const struct cuda_slot *slot, struct cuda_device *device, uint64_t *ret)
{
	(void)slot;
	(void)device;
	(void)ret;
	return not_built();
}

int cuda_memory_new(
	const uint8_t uuid[16], uint64_t size, struct cuda_memory **ret)
{
	(void)uuid;
	(void)size;
	(void)ret;
	return not_built();
}

int cuda_memory_import(
	const uint8_t uuid[16], int fd, uint64_t size, struct cuda_memory **ret)
{
	(void)uuid;
	(void)fd;
	(void)size;
	(void)ret;
	return not_built();
}

struct cuda_memory *cuda_memory_free(struct cuda_memory *memory)
{
	(void)memory;
	return NULL;
}

int cuda_memory_export(const struct cuda_memory *memory, int *ret_fd)
{
	(void)memory;
	(void)ret_fd;
	return not_built();
}

bool cuda_memory_is_borrowed(const struct cuda_memory *memory)
{
	(void)memory;
	return false;
}

uint64_t cuda_memory_at(const struct cuda_memory *memory)
{
	(void)memory;
	return 0;
}

struct cuda_device *cuda_memory_device(const struct cuda_memory *memory)
{
	(void)memory;
	return NULL;
}

int cuda_memory_read(const struct cuda_memory *memory, uint64_t offset,
	void *buf, uint64_t size)
{
	(void)memory;
	(void)offset;
	(void)buf;
	(void)size;
	return not_built();
}

int cuda_memory_borrow(const uint8_t uuid[16], uint64_t at, uint64_t size,
	struct cuda_memory **ret)
{
	(void)uuid;
	(void)at;
	(void)size;
	(void)ret;
	return not_built();
}

void cuda_memory_release_by(
	struct cuda_memory *memory, void (*release)(void *arg), void *arg)
{
	(void)memory;
	(void)release;
	(void)arg;
}

void cuda_memory_show(struct cuda_memory *memory)
{
	(void)memory;
}

uint64_t cuda_memory_size(const struct cuda_memory *memory)
{
	(void)memory;
	return 0;
}

int cuda_memory_unmap(struct cuda_memory *memory)
{
	(void)memory;
	return not_built();
}

int cuda_memory_map(struct cuda_memory *memory, int fd)
{
	(void)memory;
	(void)fd;
	return not_built();
}

int cuda_queue_peer(struct cuda_queue *queue, uint64_t dst,
	const struct cuda_device *from, uint64_t src, uint64_t size)
{
	(void)queue;
	(void)dst;
	(void)from;
	(void)src;
	(void)size;
	return not_built();
}

int cuda_queue_follow(
	struct cuda_queue *queue, const struct cuda_queue *other, int mark)
{
	(void)queue;
	(void)other;
	(void)mark;
	return not_built();
}

int cuda_queue_list(struct cuda_queue *queue, enum cuda_kernel kernel,
	const struct cuda_list *list)
{
	(void)queue;
	(void)kernel;
	(void)list;
	return not_built();
}
