// SPDX-License-Identifier: MIT
/* One phrase for each reason; it follows "not kept: ". */
#include "lib/store/not_kept.h"

#include "base/checked.h"
#include "shm/messages.h"

static const char *const texts[] = {
	[NOT_KEPT_WRITERS] = "the file is open for writing",
	[NOT_KEPT_RACY] = "the file changed less than 2 s ago, and its file "
			  "system's times are coarse",
	[NOT_KEPT_AHEAD] = "the file's change time lies in the future",
	[NOT_KEPT_FILE_SYSTEM] = "its file system's times do not reveal every "
				 "change",
	[NOT_KEPT_RANGES] = "several ranges of the file were loaded",
};

const char *not_kept_text(uint32_t why)
{
	if (why < ARRAY_SIZE(texts))
		return texts[why];
	return "the daemon has a reason that this library does not know";
}
