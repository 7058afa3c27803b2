/* SPDX-License-Identifier: MIT */
/* What the daemon counts, for tests that look at no single pool or client. */
#pragma once

#include <tarn/report.h>

/* The daemon's part of tarn_store_report, and what that returns. */
int report_daemon(tarn_store *store, struct tarn_report_daemon *ret);
