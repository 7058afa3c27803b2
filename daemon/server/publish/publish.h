/* SPDX-License-Identifier: MIT */
/* Publications, as the rest of the server knows them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shm/messages.h"

struct client;
struct domain;

/* publish/publish.c: what clients publish */
void publish_start(struct client *client, struct wire_message *message);
void publish_orphan(struct client *client); /* its client left */
