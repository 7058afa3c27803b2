/* SPDX-License-Identifier: MIT */
/* Publications, as the rest of the server knows them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shm/wire.h"

struct client;
struct rule;

/* server_publish.c: what clients publish */
void publish_start(struct client *client, struct wire_message *message);
void publish_orphan(struct client *client); /* its client left */
/* Those that wait for memory; freed: some came back. */
void publish_go_on(struct rule *rule, bool freed);
void publish_have_memory(struct rule *rule);
void publish_no_memory(struct rule *rule, int error);
/* Those that have waited too long for what comes back are to be gone on with:
 * true if there are any. Of the others, *next is not after the earliest. */
bool publish_unpark(struct rule *rule, uint64_t now, uint64_t *next);
