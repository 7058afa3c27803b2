/* SPDX-License-Identifier: MIT */
/* Channels of the clients that the test plays: they take part in them as the
 * library does, and also write there what it never would. */
#pragma once

#include "tests/fuzz/input.h"
#include "tests/fuzz/ring_poke.h"
#include "tests/fuzz/wire_server.h"

#define CHANNEL_KINDS 4u /* queue or broadcast, and whether ephemeral */
/* Of each of them: 4 slots of a page. */
#define CHANNEL_SIZE ((2u << 20) + 4u * 4096u)

/* The memfd of a new one, the caller's, to be published; -1: there are
 * enough. */
int peer_channel_new(unsigned kind);
/* What the input says next: a channel, and what is done with it. */
void peer_channel_poke(struct input *in, enum ring_part part);
void peer_channel_call(struct input *in, struct peer *peer);

/* Bails unless all storages that honest items keep exist; and, when all clients
 * have gone, unless no participant is left. */
void channels_judge(bool all_gone);
/* When all clients have gone: items keep each storage without a name. */
void channels_judge_unnamed(const struct domain *domain);
void channels_forget(void);
