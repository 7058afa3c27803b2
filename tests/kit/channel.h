/* SPDX-License-Identifier: MIT */
/* Channels for tests: what has to go well bails out if it does not. */
#pragma once

#include <tarn/tarn.h>

/* Of the daemon at that socket. */
tarn_store *kit_channel_store(const char *socket);
tarn_channel *kit_channel_open(tarn_store *store, const char *name,
	const struct tarn_channel_options *options);

tarn_slot *kit_channel_acquire(tarn_channel *c);
tarn_item *kit_channel_receive(tarn_channel *c);
tarn_tensor *kit_channel_tensor(tarn_item *item, uint32_t i);
struct tarn_channel_info kit_channel_info(tarn_channel *c);

/* One number, as an item of its own; 0, or what is wrong with the channel. */
int kit_channel_put(tarn_channel *c, int timeout_ms, int64_t value);
/* The number of an item. */
int64_t kit_channel_value(tarn_item *item);
/* Receives one: the number, which is not negative, or what is wrong. */
int64_t kit_channel_get(tarn_channel *c, int timeout_ms);

/* A tensor of n numbers, published under a name. */
tarn_tensor *kit_channel_publish(
	tarn_store *store, const char *name, int64_t n);
/* Waits until so many other threads of this process are asleep in a wait of
 * the library's: on a futex that processes share. */
void kit_channel_until_asleep(int threads);

/* A generous while, for what another process or the daemon has yet to do: is
 * it so in the end? */
bool kit_channel_comes_true(bool (*is_so)(void *arg), void *arg);
