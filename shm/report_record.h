/* SPDX-License-Identifier: MIT */
/* The record of a pool in WIRE_REPORT_IS: two public structs, of which the first
 * is all that older versions send and know. */
#pragma once

#include <tarn/report.h>

struct report_record {
	struct tarn_report_pool pool;
	struct tarn_report_nodes nodes;
};
