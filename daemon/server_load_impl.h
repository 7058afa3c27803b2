/* SPDX-License-Identifier: MIT */
/* What the files about loads share among themselves. */
#pragma once

#include "daemon/server.h"

/* ---- server_load_end.c ------------------------------------------------ */

uint64_t load_cpu_now(void);
void load_free(struct load *load);
/* Ends with this thread's last sentence; nothing of it is anywhere else. */
void load_refuse(struct load *load, int error);
/* Publishes onto bytes that are there, answers, and ends. */
void load_succeed(struct load *load, uint32_t index, uint64_t generation,
	uint32_t flags, uint64_t cpu_ns);
bool load_is_shared(const struct load *load);
/* Those who share get what the one that reads got: error 0, or a sentence,
 * which stays this thread's. */
void load_settle_sharers(struct load *load, int error);
/* The loader is not to go on; nor is it one of its jobs any more. */
void load_drop_from_loader(struct load *load);
/* Nothing of it is in flight any more; what was taken goes back. */
void load_give_back(struct load *load);
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

bool load_same_file(const struct msg_identity *a, const struct msg_identity *b);
bool load_find_cached(const struct load *load, uint32_t *ret);
struct load *load_find_running(const struct load *load);

/* ---- server_load_publish.c: its names ---------------------------------- */

/* All names of the load, at once or not at all. */
int load_publish(struct load *load, uint32_t index, uint64_t generation);
/* By a server before this one: what it was answered, or would have been. */
bool load_was_done(const struct load *load, struct msg_loaded *ret);
/* Is it in doubt, since others touched its names after it was first asked?
 * -EIO, with a sentence: and what stands cannot be what it would publish. */
int load_check_doubt(struct load *load);
/* It fails with this thread's last sentence; -EIO, with that and more: who
 * hears of nothing else loads once more, over what others did. */
int load_fail_in_doubt(const struct load *load, int error);
