/* SPDX-License-Identifier: MIT */
/* How long a copy took: info's times are negative while it runs. */
#pragma once

#include <tarn/copy.h>

#include "base/clock.h"

static inline void copy_begin_times(struct tarn_copy_info *info)
{
	info->seconds = -clock_seconds(CLOCK_MONOTONIC);
	info->cpu_seconds = -clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
}

static inline void copy_end_times(struct tarn_copy_info *info)
{
	info->seconds += clock_seconds(CLOCK_MONOTONIC);
	info->cpu_seconds += clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
}
