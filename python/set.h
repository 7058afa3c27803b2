/* SPDX-License-Identifier: MIT */
/* Sets of tensors: their fields, as Python gives them. */
#pragma once

#include "python/module.h"

/* The fields of a mapping: those of C point into the texts of pairs, a list that
 * keeps them. */
struct set_fields {
	PyObject *pairs;
	struct tarn_set_field *fields;
	size_t n;
};

/* Of a mapping of str to str, or None, which has none; removes: a value may be
 * None, which is NULL. 0 or -1; set_fields_done follows, whatever the result. */
int set_fields_argument(
	PyObject *mapping, bool removes, struct set_fields *ret);
void set_fields_done(struct set_fields *fields);
