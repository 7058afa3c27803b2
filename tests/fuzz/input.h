/* SPDX-License-Identifier: MIT */
/* What a target has been given, taken piece by piece. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct input {
	const uint8_t *at, *end;
};

/* All of it, or nothing. */
static inline bool input_take(struct input *in, void *ret, size_t size)
{
	if ((size_t)(in->end - in->at) < size)
		return false;
	memcpy(ret, in->at, size);
	in->at += size;
	return true;
}

/* 0 when there is nothing left. */
static inline uint8_t input_byte(struct input *in)
{
	uint8_t byte = 0;

	input_take(in, &byte, 1);
	return byte;
}
