/* SPDX-License-Identifier: MIT */
/* Ends the test at the call that failed, not where that is noticed. */
#include "tests/kit/must.h"

#include "base/fail.h"
#include "tests/kit/tap.h"

int must_succeed(int r, const char *call, const char *file, int line)
{
	if (r < 0)
		bail("%s:%d: %s returned %d: %s", file, line, call, r,
			tarn_fail_message());
	return r;
}
