/* SPDX-License-Identifier: MIT */
/* The daemon's part of a report. */
#include "tests/kit/report.h"

int report_daemon(tarn_store *store, struct tarn_report_daemon *ret)
{
	struct tarn_report *report;
	int r = tarn_store_report(store, &report);

	if (r < 0)
		return r;
	*ret = report->daemon;
	tarn_report_free(report);
	return 0;
}
