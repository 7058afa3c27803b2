/* SPDX-License-Identifier: MIT */
/*
 * MiniLM, a small BERT that turns a sentence into a vector: token numbers in, a
 * unit vector out, by libtarnops alone. The weights are those of a module tree,
 * and shared with all processes that have opened it.
 */
#pragma once

#include <tarn/nn.h>
#include <tarn/ops.h>

struct minilm;

/* The model over the tree, which it keeps: finds all weights once. */
int minilm_new(tarn_module *tree, struct minilm **ret);
void minilm_free(struct minilm *model);

/* How long a vector is. */
int64_t minilm_width(const struct minilm *model);

/*
 * The vectors (F32 [batch, width], written to out) of token numbers (I64 [batch,
 * length], rows that are shorter end in zeros), by the weights of one state.
 * Tensors between the layers are kept for the next call of the same shape. One
 * thread at a time.
 */
int minilm_run(struct minilm *model, tarn_state *state, const tarn_tensor *ids,
	tarn_tensor *out);
