/* SPDX-License-Identifier: MIT */
/* What the files about loads share among themselves. */
#pragma once

#include "daemon/server.h"

/* ---- server_load.c: ends ---------------------------------------------- */

/* Its loader has one job fewer. */
void load_leave_loader(struct load *load);
/* Fails it, whatever it waits for and whoever shares it. */
void load_give_up(struct load *load, int error);

/* ---- server_load_fill.c: memory, and a loader to fill it -------------- */

/* An entry for its bytes, which are being filled. */
int load_add_storage(struct load *load, uint64_t offset, uint64_t size);
/* 1: taken and filling; 0: wait for the keeper; or an error. */
int load_take_memory(struct load *load, bool may_grow);
/* The number below which a loader must know all segments. */
uint32_t load_segments_needed(const struct load *load);
/* Gives the file to a loader that knows so many segments. */
int load_identify(struct load *load, uint32_t n_segments);
/* Tells its loader where the bytes go. */
int load_fill(struct load *load);
/* Tells the client, once, where progress can be read. */
void load_tell_loading(struct load *load);

/* ---- server_load_find.c: whose bytes ----------------------------------- */

bool load_same_file(
	const struct msg_identity *a, const struct msg_identity *b);
bool load_find_cached(const struct load *load, uint32_t *ret);
struct load *load_find_running(const struct load *load);
