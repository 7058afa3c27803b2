/* SPDX-License-Identifier: MIT */
/*
 * Where the tensors of a set are, in memory or on a device; new tensors there,
 * and kernels on those of a device.
 */
#pragma once

#include <tarn/cuda.h>
#include <tarn/set.h>

#include "base/cleanup.h"

struct set_place {
	bool on_device;
	struct tarn_cuda_device device;
};

struct set_place set_place_of(const tarn_tensor *tensor);
bool set_place_same(const struct set_place *a, const struct set_place *b);

/* size bytes to be published in the store; NULL: for this process. */
int set_place_alloc(tarn_store *store, const struct set_place *place,
	uint64_t size, tarn_storage **ret) _must_check_;
/* The same, whose pages on the host may come as they are written: created.h. */
int set_place_blank(tarn_store *store, const struct set_place *place,
	uint64_t size, tarn_storage **ret) _must_check_;
/* A tensor in C order, in memory of its own. */
int set_place_tensor(tarn_store *store, const struct set_place *place,
	enum tarn_dtype dtype, int ndim, const int64_t *shape,
	tarn_tensor **ret) _must_check_;
/* The tensor in C order there, in memory of its own, as that dtype. */
int set_place_copy(const struct set_place *place, const tarn_tensor *tensor,
	enum tarn_dtype dtype, void *cuda_stream,
	tarn_tensor **ret) _must_check_;

/* ---- work on a device ---------------------------------------------------- */

struct cuda_device;
struct cuda_queue;
struct cuda_slot;

struct set_work {
	struct cuda_device *device; /* in use by the tensor */
	struct cuda_queue *queue;
	struct cuda_slot *slot; /* into which kernels write results */
};

/* A queue on the device of the tensor, after the work that is in that stream.
 * set_work_end follows, whatever the result. */
int set_work_begin(struct set_work *work, const tarn_tensor *tensor,
	void *cuda_stream) _must_check_;
void set_work_end(struct set_work *work);
/* Where the device has the slot. */
int set_work_slot(const struct set_work *work, uint64_t *ret) _must_check_;
/* Waits for what was queued. */
int set_work_wait(const struct set_work *work) _must_check_;
/* Where the device has the tensor's element (0, 0, ...), which begins a byte. */
int set_device_address(const tarn_tensor *tensor, uint64_t *ret) _must_check_;
