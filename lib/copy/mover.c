// SPDX-License-Identifier: MIT
/*
 * The life of a mover: which executor it is, how it ends, what is told then.
 * The first error counts, with the sentence that was said where it happened;
 * what comes after is its echo.
 */
#include "lib/copy/mover.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"

typedef int (*executor_new)(
	struct mover_env *env, const struct mover *head, struct mover **ret);

/* [dst][src]. A device's row and column are for who brings one. */
static const executor_new executors[PLACES][PLACES] = {
	[PLACE_MEMORY][PLACE_MEMORY] = copy_memory_new,
	[PLACE_MEMORY][PLACE_FILE] = copy_read_new,
	[PLACE_FILE][PLACE_MEMORY] = copy_write_new,
	[PLACE_FILE][PLACE_FILE] = copy_relay_new,
};

static const char *const place_names[PLACES] = {
	[PLACE_MEMORY] = "memory",
	[PLACE_FILE] = "a file",
	[PLACE_DEVICE] = "a device",
};

enum place place_of(const tarn_storage *storage)
{
	/* What is mapped counts as a file: reading it fails then, where
	 * touching it would kill. */
	if (storage_file(storage))
		return PLACE_FILE;
	return PLACE_MEMORY;
}

int mover_new_checked(
	struct mover_env *env, const struct mover *head, struct mover **ret)
{
	enum place to = place_of(head->dst->storage);
	enum place from = place_of(head->src->storage);
	/* Of nothing there is nothing to read or to write. */
	executor_new executor =
		head->info.bytes ? executors[to][from] : copy_memory_new;

	if (!executor)
		return tarn_fail(ENOTSUP,
			"copy: from %s to %s is not supported by this build",
			place_names[from], place_names[to]);
	return executor(env, head, ret);
}

int mover_new(struct mover_env *env, tarn_tensor *dst, const tarn_tensor *src,
	const struct tarn_copy_options *options, struct mover **ret)
{
	struct mover head;
	int r = copy_check(&head, dst, src, options);

	return r < 0 ? r : mover_new_checked(env, &head, ret);
}

void mover_let_go(struct mover *mover)
{
	if (mover->ops->let_go)
		mover->ops->let_go(mover);
}

struct mover *mover_free(struct mover *mover)
{
	if (mover) {
		mover_let_go(mover);
		mover->ops->free(mover);
	}
	return NULL;
}

void mover_begin(struct mover *mover, struct mover_env *env,
	const struct mover *head, const struct mover_ops *ops)
{
	*mover = *head;
	mover->ops = ops;
	mover->env = env;
	tarn_tensor_ref(mover->dst);
	tarn_tensor_ref(mover->src);
}

void mover_drop(struct mover *mover)
{
	tarn_tensor_unref(mover->src);
	tarn_tensor_unref(mover->dst);
}

void mover_failed(struct mover *mover, int error)
{
	mover->ended = true;
	if (mover->error)
		return;
	mover->error = error;
	snprintf(mover->error_text, sizeof(mover->error_text), "%s",
		tarn_fail_message());
}

void mover_stuck(struct mover *mover)
{
	mover_failed(mover,
		tarn_fail(EIO,
			"copy: nothing is under way when %llu of %llu bytes "
			"were copied: a bug in tarn, please report it",
			(unsigned long long)mover->done,
			(unsigned long long)mover->info.bytes));
}

void mover_cancel(struct mover *mover)
{
	if (mover->ended)
		return;
	mover->cancelled = true;
	mover_failed(mover,
		tarn_fail(ECANCELED,
			"copy: cancelled when %llu of %llu bytes were copied",
			(unsigned long long)mover->done,
			(unsigned long long)mover->info.bytes));
}

int mover_result(const struct mover *mover)
{
	if (mover->error == 0)
		return 0;
	return tarn_fail_verbatim(-mover->error, mover->error_text);
}
