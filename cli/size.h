/* SPDX-License-Identifier: MIT */
/* Sizes, as a person reads them. */
#pragma once

#define SIZE_TEXT_MAX 16 /* "1023.99 GiB" */

/* "0 B", "1.46 GiB"; returns buf. */
const char *size_text(double n, char buf[SIZE_TEXT_MAX]);
