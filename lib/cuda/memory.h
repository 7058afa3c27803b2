/* SPDX-License-Identifier: MIT */
/*
 * Memory of a device, made of whole granules (2 MiB) at an address that is this
 * process's own. Other processes map the same memory by a descriptor, which
 * keeps it on the device for as long as anybody has it open.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cuda_memory;

/* size bytes, which are 0. -ENOMEM: the device has not so much left; -ENODEV,
 * -ENOTSUP, -EIO. */
int cuda_memory_new(const uint8_t uuid[16], uint64_t size,
	struct cuda_memory **ret) _must_check_;
/* Memory that another process has exported, to be read; fd remains the caller's.
 * (Where the driver does not know memory that is only read, kernels can write to
 * it.) -EINVAL: it is no such descriptor, or of less memory, or of another
 * device's. */
int cuda_memory_import(const uint8_t uuid[16], int fd, uint64_t size,
	struct cuda_memory **ret) _must_check_;
/* Waits for no work, but for that of all streams where its address was shown.
 * Takes NULL, returns NULL. */
struct cuda_memory *cuda_memory_free(struct cuda_memory *memory);

/* A descriptor of it, the caller's to close. */
int cuda_memory_export(
	const struct cuda_memory *memory, int *ret_fd) _must_check_;

/* Is it from cuda_memory_borrow? */
bool cuda_memory_is_borrowed(const struct cuda_memory *memory);

/* Where the device has its first byte; the same until it is freed. */
uint64_t cuda_memory_at(const struct cuda_memory *memory);

/* Its address goes to other code. */
void cuda_memory_show(struct cuda_memory *memory);
/* As it was asked for. */
uint64_t cuda_memory_size(const struct cuda_memory *memory);
/* Its device, which is in use as long as the memory is. */
struct cuda_device;
struct cuda_device *cuda_memory_device(const struct cuda_memory *memory);

/* Copies size bytes from offset on to memory of this process, after the work
 * that is in the legacy default stream, and waits for that. */
int cuda_memory_read(const struct cuda_memory *memory, uint64_t offset,
	void *buf, uint64_t size) _must_check_;

/* Memory of other code's. It cannot be exported. -EINVAL: the driver does not
 * know the address, or as another device's. */
int cuda_memory_borrow(const uint8_t uuid[16], uint64_t at, uint64_t size,
	struct cuda_memory **ret) _must_check_;
/* release(arg) is called when it is freed, unless it is NULL. */
void cuda_memory_release_by(
	struct cuda_memory *memory, void (*release)(void *arg), void *arg);

/*
 * Takes it from the address, which stays reserved, and drops this process's hold
 * on it: it goes unless somebody else has it. No work may reach it until
 * cuda_memory_map, which puts what the descriptor leads to there again: device
 * addresses in graphs of the driver's stay right.
 */
int cuda_memory_unmap(struct cuda_memory *memory) _must_check_;
int cuda_memory_map(struct cuda_memory *memory, int fd) _must_check_;
