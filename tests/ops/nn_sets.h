/* SPDX-License-Identifier: MIT */
/*
 * A model whose version stands in every element of every tensor, and publishers
 * of it: a state that mixes versions shows.
 */
#pragma once

#include <sys/types.h>

#include "tests/kit/daemon_helper.h"
#include "tests/ops/nn_kit.h"

#define SET_TENSORS 24 /* "model/layer.0.weight" and so on */

extern struct daemon nn_daemon;
extern tarn_store *nn_store;

void nn_begin(void);
/* Status of the daemon. */
int nn_end(void);

/* Publishes model/ as a whole, in one publication. */
void nn_publish(tarn_store *store, double version);
/* One tensor of F32[n] under a name. */
void nn_publish_one(
	tarn_store *store, const char *name, int64_t n, double value);

/* A child that publishes versions first, first + 1, ... without end, after a
 * pause each; returns when the first is there. */
pid_t nn_publisher(double first, unsigned pause_us);
/* kill -9, and waits for its end. */
void nn_kill(pid_t pid);

/* The version of a state, from all elements of all tensors; -1: it has more
 * than one. Reports which, once. */
double nn_version(tarn_module *m, const tarn_state *state);
