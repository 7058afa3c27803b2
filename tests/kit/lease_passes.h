/* SPDX-License-Identifier: MIT */
/*
 * Counts the passes over lease pages. The test is linked with
 * -Wl,--wrap=lease_batch_search.
 */
#pragma once

extern unsigned n_searches; /* of a page */
extern unsigned search_us;  /* that each takes at least */
