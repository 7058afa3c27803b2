/* SPDX-License-Identifier: MIT */
/*
 * Each system call of a save fails once, in every way that it can: then the old
 * file is what it was, nothing else is in the folder, and the sentence names
 * the path. Or the save copes, and the new file is whole. One call is special:
 * when the folder cannot be synced the new file is in place already, and the
 * sentence says that.
 */
#include "tests/kit/save.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "tests/kit/save_calls.h"
#include "tests/kit/tap.h"

enum { TENSORS = 3 };

static struct tarn_save_item before[TENSORS], after[TENSORS];

static unsigned told[CALLS]; /* faults that were errors of the save */

static int save(const struct tarn_save_item *items, bool checksums)
{
	struct tarn_save_options o = {
		.engine = "threads", .checksums = checksums};

	return tarn_save(in("f"), items, TENSORS, &o, NULL);
}

/* Of these a save makes the best, or tries again. */
static bool is_coped_with(enum call call, int error)
{
	switch (call) {
	case CALL_OPEN: /* with a name; not past the page cache */
		return true;
	case CALL_ALLOCATE:
		return error == EOPNOTSUPP || error == EINTR;
	case CALL_WRITE:
		return error == EINTR || error == FAULT_SHORT;
	case CALL_CLOSE: /* most are of copies of the descriptor */
		return true;
	case CALL_SYNC:
		return error == EINTR;
	case CALL_SYNC_FOLDER:
		return error == EINTR || error == EINVAL;
	case CALL_LINK:
		return error == EEXIST;
	default:
		return false;
	}
}

static void judge(enum call call, unsigned n, int error, int r)
{
	bool in_place = r >= 0 || call == CALL_SYNC_FOLDER;
	char what[128];

	told[call] += r < 0;
	snprintf(what, sizeof(what), "%s %u: %s", call_names[call], n,
		error == FAULT_SHORT ? "short" : tarn_errno_text(error));
	if (r >= 0)
		ok(is_coped_with(call, error), "%s does not make the save fail",
			what);
	else
		is_int(-error, r, "%s makes the save fail with its error",
			what);
	if (r < 0)
		has_str("/f: ", tarn_error_message(),
			"the error names the file: %s", what);
	if (r < 0 && (call != CALL_ALLOCATE || error != ENOSPC))
		has_str(tarn_errno_text(error), tarn_error_message(),
			"the error says what failed: %s", what);
	if (r < 0)
		ok(!strstr(tarn_error_message(), "(deleted)"),
			"the error does not name the temporary file: %s", what);
	if (r < 0 && call == CALL_SYNC_FOLDER)
		has_str("the new file is in place", tarn_error_message(),
			"the error says how far the save came: %s", what);
	holds(in("f"), in_place ? after : before, TENSORS, what);
	is_str("f", listing(), "%s leaves no other file", what);
}

/* Each call of that kind in turn, until there is none. */
static void test_call(enum call call, int error)
{
	for (unsigned n = 1;; n++) {
		unsigned made;
		int r;

		if (save(before, false) < 0)
			bail("%s", tarn_error_message());
		calls_arm(call, n, error);
		r = save(after, true);
		made = calls_disarm();
		if (made < n) {
			ok(n > 1, "%s is called by a save", call_names[call]);
			is_int(0, r, "a save without a fault succeeds");
			return;
		}
		judge(call, n, error, r);
	}
}

int main(void)
{
	static const struct {
		enum call call;
		int errors[5];
	} cases[] = {
		{CALL_OPEN, {EOPNOTSUPP, EACCES, ENOSPC, EMFILE}},
		{CALL_ALLOCATE, {ENOSPC, EDQUOT, EIO, EINTR, EOPNOTSUPP}},
		{CALL_WRITE, {EIO, ENOSPC, EDQUOT, EINTR, FAULT_SHORT}},
		{CALL_CHMOD, {EPERM, EIO}},
		{CALL_LINK, {EXDEV, ENOSPC, EEXIST}},
		{CALL_SYNC, {EIO, ENOSPC, EDQUOT, EINTR}},
		{CALL_CLOSE, {EIO, EDQUOT, EINTR}},
		{CALL_RENAME, {EIO, ENOSPC, EACCES}},
		{CALL_SYNC_FOLDER, {EIO, EINTR, EINVAL}},
	};

	for (unsigned i = 0; i < TENSORS; i++) {
		static const char *const names[] = {"a", "b", "c"};
		int64_t n = i == 2 ? 300000 : 100 + (int64_t)i;

		before[i] = item_of(names[i], MADE(TARN_F32, 1 + i, n));
		after[i] = item_of(names[i], MADE(TARN_F32, 7 + i, n + 5));
	}
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (int k = 0; k < 5 && cases[i].errors[k]; k++)
			test_call(cases[i].call, cases[i].errors[k]);
	for (int i = CALL_ALLOCATE; i < CALLS; i++)
		ok(told[i] > 0, "%s: some faults were reported", call_names[i]);
	drop(before, TENSORS);
	drop(after, TENSORS);
	clear_folder();
	return done(396);
}
