// SPDX-License-Identifier: MIT
/*
 * The life of a copy operation: the choice of its executor, its end, and its
 * result. The first error counts, with the sentence that was set where it
 * happened; later ones are its consequences.
 */
#include "lib/copy/copy_op.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "lib/copy/copy_device.h"

typedef int (*executor_new)(
	struct copy_env *env, const struct copy_op *head, struct copy_op **ret);

/* [dst][src] */
static const executor_new executors[MEDIA][MEDIA] = {
	[MEDIUM_MEMORY][MEDIUM_MEMORY] = copy_memory_new,
	[MEDIUM_MEMORY][MEDIUM_FILE] = copy_read_new,
	[MEDIUM_FILE][MEDIUM_MEMORY] = copy_write_new,
	[MEDIUM_FILE][MEDIUM_FILE] = copy_relay_new,
	[MEDIUM_DEVICE][MEDIUM_MEMORY] = copy_device_new,
	[MEDIUM_DEVICE][MEDIUM_FILE] = copy_device_new,
	[MEDIUM_DEVICE][MEDIUM_DEVICE] = copy_device_new,
	[MEDIUM_MEMORY][MEDIUM_DEVICE] = copy_device_new,
	[MEDIUM_FILE][MEDIUM_DEVICE] = copy_device_new,
};

enum medium medium_of(const tarn_storage *storage)
{
	/* A mapped file counts as a file: reading it then returns an error,
	 * where touching it would kill. */
	if (storage_file(storage))
		return MEDIUM_FILE;
	return storage->on_device ? MEDIUM_DEVICE : MEDIUM_MEMORY;
}

int copy_op_new_checked(
	struct copy_env *env, const struct copy_op *head, struct copy_op **ret)
{
	enum medium to = medium_of(head->dst->storage);
	enum medium from = medium_of(head->src->storage);
	/* Without elements there is nothing to read or to write. */
	executor_new executor =
		head->info.bytes ? executors[to][from] : copy_memory_new;

	return executor(env, head, ret);
}

int copy_op_new(struct copy_env *env, tarn_tensor *dst, const tarn_tensor *src,
	const struct tarn_copy_options *options, struct copy_op **ret)
{
	struct copy_op head;
	int r = copy_check(&head, dst, src, options);

	return r < 0 ? r : copy_op_new_checked(env, &head, ret);
}

void copy_op_release(struct copy_op *copy_op)
{
	if (copy_op->ops->release)
		copy_op->ops->release(copy_op);
}

struct copy_op *copy_op_free(struct copy_op *copy_op)
{
	if (copy_op) {
		copy_op_release(copy_op);
		copy_op->ops->free(copy_op);
	}
	return NULL;
}

void copy_op_begin(struct copy_op *copy_op, struct copy_env *env,
	const struct copy_op *head, const struct copy_op_ops *ops)
{
	*copy_op = *head;
	copy_op->ops = ops;
	copy_op->env = env;
	tarn_tensor_ref(copy_op->dst);
	tarn_tensor_ref(copy_op->src);
}

void copy_op_drop(struct copy_op *copy_op)
{
	tarn_tensor_unref(copy_op->src);
	tarn_tensor_unref(copy_op->dst);
}

void copy_op_failed(struct copy_op *copy_op, int error)
{
	copy_op->ended = true;
	if (copy_op->error)
		return;
	copy_op->error = error;
	snprintf(copy_op->error_text, sizeof(copy_op->error_text), "%s",
		tarn_fail_message());
}

void copy_op_stuck(struct copy_op *copy_op)
{
	copy_op_failed(copy_op,
		tarn_fail(EIO,
			"copy: nothing is under way when %llu of %llu bytes "
			"were copied: a bug in tarn, please report it",
			(unsigned long long)copy_op->done,
			(unsigned long long)copy_op->info.bytes));
}

void copy_op_cancel(struct copy_op *copy_op)
{
	if (copy_op->ended)
		return;
	copy_op->cancelled = true;
	copy_op_failed(copy_op,
		tarn_fail(ECANCELED,
			"copy: cancelled when %llu of %llu bytes were copied",
			(unsigned long long)copy_op->done,
			(unsigned long long)copy_op->info.bytes));
}

/* The data after its header may belong to another version. */
static int check_source(const struct copy_op *copy_op)
{
	const struct storage_file *file = storage_file(copy_op->src->storage);

	return file ? storage_file_check(file) : 0;
}

int copy_op_result(struct copy_op *copy_op)
{
	int r = copy_op->error ? 0 : check_source(copy_op);

	if (r < 0)
		copy_op_failed(copy_op, r);
	if (copy_op->error == 0)
		return 0;
	return tarn_fail_verbatim(-copy_op->error, copy_op->error_text);
}

/* ---- copies within a copy -------------------------------------------- */

int copy_op_new_inner(struct copy_op *outer, const struct copy_side *dst,
	const struct copy_side *src, const struct tarn_copy_options *options,
	struct copy_op **ret)
{
	_cleanup_tensor_ tarn_tensor *to = NULL, *from = NULL;
	int r = tarn_tensor_new_checked(
		dst->storage, dst->base, dst->layout, &to);

	if (r >= 0)
		r = tarn_tensor_new_checked(
			src->storage, src->base, src->layout, &from);
	if (r >= 0)
		r = copy_op_new(outer->env, to, from, options, ret);
	if (r >= 0)
		(*ret)->outer = outer;
	return r;
}

int copy_op_end_inner(struct copy_op **inner)
{
	const struct tarn_copy_info *did = &(*inner)->info;
	struct tarn_copy_info *sum = &(*inner)->outer->info;
	int r = copy_op_result(*inner);

	sum->read += did->read;
	sum->written += did->written;
	sum->cached += did->cached;
	sum->direct += did->direct;
	sum->requests += did->requests;
	*inner = copy_op_free(*inner);
	return r;
}
