/* SPDX-License-Identifier: MIT */
/*
 * Saving: planned first (plan.c), then a new file (replace.c) written in one go
 * (writer.c), then put in place of the old one. All mistakes of the caller are
 * reported before there is a file; a later failure leaves none.
 */
#include <string.h>

#include "base/fail.h"
#include "lib/copy/times.h"
#include "lib/save/chunk_io.h"
#include "lib/save/replace.h"
#include "lib/save/writer.h"

/* The part of a path that leaves room for the rest of the sentence. */
#define SHOWN_MAX 300

static int name_failure(int r, const char *path)
{
	size_t n = strlen(path);

	if (n <= SHOWN_MAX)
		return tarn_fail_prefix(r, "%s: ", path);
	return tarn_fail_prefix(r, "...%s: ", path + n - SHOWN_MAX);
}

static int write_file(const char *path, struct save_plan *plan,
	const struct tarn_save_options *options, struct tarn_copy_info *info)
{
	_cleanup_(replace_freep) struct replacement *new = NULL;
	int r = replace_begin(path, options->exclusive, &new);

	if (r >= 0)
		r = replace_reserve(new, plan->head.file_size);
	if (r >= 0)
		r = save_write(plan, options, new->fd, info);
	if (r >= 0)
		r = replace_sync(new);
	/* The last chance to cancel. */
	if (r >= 0 && options->progress &&
		options->progress(options->arg, plan->work, plan->work))
		r = tarn_fail(ECANCELED, "cancelled");
	return r < 0 ? r : replace_commit(new);
}

int tarn_save(const char *path, const struct tarn_save_item *items, size_t n,
	const struct tarn_save_options *options,
	struct tarn_copy_info *ret_info)
{
	static const struct tarn_save_options plain;
	struct tarn_copy_info info = {0};
	struct save_plan plan = {0};
	int r;

	if (!*path)
		return tarn_fail(EINVAL, "save: the path is empty");
	copy_begin_times(&info);
	r = save_plan_make(path, items, n, options, &plan);
	if (r >= 0)
		r = write_file(path, &plan, options ? options : &plain, &info);
	save_plan_free(&plan);
	if (r < 0)
		return name_failure(r, path);
	copy_end_times(&info);
	if (ret_info)
		*ret_info = info;
	return 0;
}
