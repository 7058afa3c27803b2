/* SPDX-License-Identifier: MIT */
/*
 * The body of a message on its way: bytes that grow by doubling. Once there
 * was no memory, nothing more is put in it and failed stays set, so that it
 * need be looked at only at the end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarn/layout.h>

struct body {
	unsigned char *p; /* free() it */
	size_t size;
	size_t room;
	bool failed;
};

void body_put(struct body *body, const void *p, size_t size);
/* Zeroes up to a multiple of 8. */
void body_pad(struct body *body);
/* A struct msg_name with what follows it. The name is checked. */
int body_put_name(struct body *body, const char *name, size_t name_size,
	uint32_t source, uint64_t base, const struct tarn_layout *layout);
