/* SPDX-License-Identifier: MIT */
/*
 * The settings that the command line and the [daemon] section of the
 * configuration share: one name, one meaning, one check.
 */
#pragma once

#include "daemon/config/options.h"

/* SIZE: bytes, or with K, M, G, T. -EINVAL, without a sentence. */
int setting_size(const char *text, uint64_t *ret);
/* As of a file, in octal, of r and w alone. -EINVAL, without a sentence. */
int setting_mode(const char *text, uint16_t *ret);

/* auto, local, interleave, or the number of a node: -EINVAL with a sentence. */
int setting_placement(const char *text, struct placement *ret);

/* yes or no: -EINVAL with a sentence. */
int setting_register(const char *text, bool *ret);

/* The bit of a setting in options.given; 0: there is none of that name. */
unsigned setting_bit(const char *name);
/* The name of setting i; NULL behind the last. */
const char *setting_name(unsigned i);
/* -EINVAL with a sentence that names what is allowed. Keeps value. */
int setting_take(struct options *options, const char *name, const char *value);
