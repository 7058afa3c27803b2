/* SPDX-License-Identifier: MIT */
/* Declarations that the files about loads share. */
#pragma once

#include "daemon/server/server.h"

/* ---- load/end.c ------------------------------------------------ */

uint64_t load_cpu_now(void);
void load_free(struct load *load);
/* Ends with this thread's last sentence; nothing of it is anywhere else. */
void load_refuse(struct load *load, int error);
/* Publishes onto bytes that are there, answers, and ends. */
void load_succeed(struct load *load, uint32_t index, uint64_t generation,
	uint32_t flags, uint64_t cpu_ns);
/* The loader is not to go on; nor is it one of its jobs any more. */
void load_drop_from_loader(struct load *load);
/* Nothing of it is in flight any more; what was taken goes back. */
void load_give_back(struct load *load);
/* Its loader has one job fewer. */
void load_leave_loader(struct load *load);
/* Fails it in any state, together with the loads that share it. */
void load_give_up(struct load *load, int error);

/* ---- load/take_memory.c ---------------------------------------- */

/* An entry for its bytes, which are being filled. */
int load_add_storage(struct load *load, uint64_t offset, uint64_t size);
/* 1: taken and filling; 0: it waits for memory; or an error. */
int load_take_memory(struct load *load);
/* It has its entry, or will have none. */
void load_awaited(struct load *load);
/* It has waited for memory: a memory_wait's done. */
void load_waited(struct memory_wait *wait, int error);

/* ---- load/copy.c: bytes of another storage ---------------------- */

/* May its client copy that storage? Sets what the request leaves open. */
int load_copy_check(struct load *load);
/* The storage stays until load_copy_end. An own memfd is the load's file. */
int load_copy_begin(struct load *load);
void load_copy_end(struct load *load);
/* Is it there already? */
bool load_copy_find(const struct load *load, uint32_t *ret);
/* What its entry says more than that of a file's bytes. */
void load_copy_describe(const struct load *load, struct table_storage *entry);
/* Its bytes are there; may it be shown? -ESTALE: nothing leads to the storage
 * any more that it copies. */
int load_copy_show(struct load *load, uint32_t index);

/* ---- load/assign.c: to which loader ---------------------------- */

/* The number below which a loader must know all segments. */
uint32_t load_segments_needed(const struct load *load);
/* Gives the file to a loader that knows so many segments. */
int load_identify(struct load *load, uint32_t n_segments);
/* Tells its loader where the bytes go. */
int load_fill(struct load *load);

/* ---- load/progress.c: progress that is sent to clients --------- */

/* Tells the client, and those of the loads that share this one's bytes, where
 * progress can be read; each of them once. */
void load_send_loading(struct load *load);
/* Tells the client how much of its memory is ready, if it waits for that. */
void load_send_memory(struct load *load);

/* ---- load/find.c: shared bytes -------------------------------- */

bool load_same_file(const struct msg_identity *a, const struct msg_identity *b);
/* Why its bytes are not found by later loads, or that they are. */
enum not_kept load_not_kept(const struct load *load);
bool load_find_cached(const struct load *load, uint32_t *ret);
struct load *load_find_running(const struct load *load);

/* ---- load/share.c: loads that wait for another load -------------- */

bool load_is_shared(const struct load *load);
/* From now on it waits for the bytes that another load reads. */
void load_share(struct load *load, struct load *with);
/* Ends the loads that share bytes like the one that reads them: error 0, or a
 * sentence, which stays this thread's. Those of other users do not end with an
 * error: they read by themselves. */
void load_finish_sharers(struct load *load, int error);

/* ---- load/commit_names.c: its names ---------------------------------- */

/* All names of the load, at once or not at all. */
int load_publish(struct load *load, uint32_t index, uint64_t generation);
/* By a server before this one: the answer, which the caller sends. */
bool load_was_done(const struct load *load, struct msg_loaded *ret);
