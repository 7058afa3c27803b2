/* SPDX-License-Identifier: MIT */
/*
 * The body of a message under construction: bytes that grow by doubling. After
 * an allocation failed, nothing more is added and failed stays set, so that the
 * caller need test it only at the end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarn/layout.h>

struct message_body {
	unsigned char *p; /* free() it */
	size_t size;
	size_t room;
	bool failed;
};

void message_body_put(struct message_body *body, const void *p, size_t size);
/* Pads with zeros to a multiple of 8. */
void message_body_pad(struct message_body *body);
/* Adds a struct msg_name with the fields that follow it. The name is
 * checked. */
int message_body_put_name(struct message_body *body, const char *name,
	size_t name_size, uint32_t source, uint64_t base,
	const struct tarn_layout *layout);
