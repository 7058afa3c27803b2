/* SPDX-License-Identifier: MIT */
/* Why the daemon does not keep the result of a load, as text. */
#pragma once

#include <stdint.h>

/* The text of an enum not_kept; NULL: it is kept. Static. */
const char *not_kept_text(uint32_t why);
