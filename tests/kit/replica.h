/* SPDX-License-Identifier: MIT */
/*
 * Replicas on a machine with one node, for programs that are linked with
 * NOT_KNOWING_NODES: they do not know where a tensor lies, and run on node 0.
 * So every copy lies on KIT_NODE, and is nearer than what it is a copy of.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tarn/store.h>

#define KIT_NODE 0

/* Ends the test unless r is a success. */
void kit_good(int r, const char *what);
/* Which storage a tensor lies in, and the one that a look-up of a name gives. */
uint32_t kit_storage_of(tarn_store *store, const tarn_tensor *tensor);
uint32_t kit_storage_named(tarn_store *store, const char *name);
/* The daemon has so many. What nobody holds goes after a second, or
 * later on a busy machine. */
bool kit_storages_become(tarn_store *store, uint64_t n);
/* tarn_store_check finds no fault. */
bool kit_is_sound(tarn_store *store);
int kit_server_pid(tarn_store *store);
