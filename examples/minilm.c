/* SPDX-License-Identifier: MIT */
#include "examples/minilm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define HEAD 32 /* features of each head of the attention */
#define EPSILON 1e-12

struct dense {
	tarn_parameter *weight, *bias;
};

struct layer {
	struct dense query, key, value, joined, joined_norm;
	struct dense wide, narrow, norm;
};

/* What is between the layers, for one shape of a batch. */
struct buffers {
	int64_t batch, length;
	tarn_tensor *mask, *where; /* BOOL [b, l]; [b, 1, 1, l] of it */
	tarn_tensor *x, *y, *wide; /* [b, l, width], again, [b, l, 4 width] */
	tarn_tensor *part[3], *context; /* query, key, value; [b, l, width] */
	tarn_tensor *head[3], *heads;   /* the same as [b, heads, l, HEAD] */
	tarn_tensor *norm;              /* of each vector: [b, 1] */
};

struct minilm {
	tarn_module *tree;
	tarn_parameter *words, *positions, *types;
	struct dense norm;
	struct layer *layers;
	int n_layers;
	int64_t width, inner;
	struct buffers buffers;
};

/* ---- weights --------------------------------------------------------------- */

static int find(tarn_module *m, const char *path, struct dense *ret)
{
	tarn_module *dense = NULL;
	int r = tarn_module_find(m, path, &dense);

	if (r >= 0)
		r = tarn_module_find_parameter(dense, "weight", &ret->weight);
	if (r >= 0)
		r = tarn_module_find_parameter(dense, "bias", &ret->bias);
	return r;
}

static int find_layer(tarn_module *m, struct layer *l)
{
	const struct {
		const char *path;
		struct dense *to;
	} parts[] = {
		{"attention.self.query", &l->query},
		{"attention.self.key", &l->key},
		{"attention.self.value", &l->value},
		{"attention.output.dense", &l->joined},
		{"attention.output.LayerNorm", &l->joined_norm},
		{"intermediate.dense", &l->wide},
		{"output.dense", &l->narrow},
		{"output.LayerNorm", &l->norm},
	};
	int r = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && r >= 0; i++)
		r = find(m, parts[i].path, parts[i].to);
	return r;
}

static int find_all(struct minilm *m)
{
	tarn_module *embeddings = NULL, *layers = NULL;
	tarn_module *const *children;
	int r = tarn_module_find(m->tree, "embeddings", &embeddings);

	if (r >= 0)
		r = tarn_module_find_parameter(
			embeddings, "word_embeddings.weight", &m->words);
	if (r >= 0)
		r = tarn_module_find_parameter(embeddings,
			"position_embeddings.weight", &m->positions);
	if (r >= 0)
		r = tarn_module_find_parameter(
			embeddings, "token_type_embeddings.weight", &m->types);
	if (r >= 0)
		r = find(embeddings, "LayerNorm", &m->norm);
	if (r >= 0)
		r = tarn_module_find(m->tree, "encoder.layer", &layers);
	if (r < 0)
		return r;
	m->n_layers = (int)tarn_module_children(layers, &children);
	m->layers = calloc((size_t)m->n_layers, sizeof(*m->layers));
	if (!m->layers)
		return tarn_error_set(ENOMEM, "no memory for layers");
	for (int i = 0; i < m->n_layers && r >= 0; i++)
		r = find_layer(children[i], &m->layers[i]);
	return r;
}

static int64_t extent_of(tarn_parameter *p, int dim)
{
	tarn_tensor *t = tarn_parameter_tensor(p);
	const struct tarn_layout *l = tarn_tensor_layout(t);
	int64_t n = dim < l->ndim ? l->shape[dim] : 0;

	tarn_tensor_unref(t);
	return n;
}

int minilm_new(tarn_module *tree, struct minilm **ret)
{
	struct minilm *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return tarn_error_set(ENOMEM, "no memory for a model");
	m->tree = tarn_module_ref(tree);
	r = find_all(m);
	if (r >= 0) {
		m->width = extent_of(m->words, 1);
		m->inner = m->n_layers ? extent_of(m->layers[0].wide.weight, 0)
				       : 0;
		if (m->width < HEAD || m->width % HEAD || !m->n_layers)
			r = tarn_error_set(EINVAL,
				"%d layers of width %lld: wanted are 1 or "
				"more, and a multiple of %d",
				m->n_layers, (long long)m->width, HEAD);
	}
	if (r < 0)
		minilm_free(m);
	else
		*ret = m;
	return r;
}

int64_t minilm_width(const struct minilm *model)
{
	return model->width;
}

/* ---- buffers ----------------------------------------------------------------- */

static void drop_buffers(struct buffers *b)
{
	tarn_tensor_unref(b->mask);
	tarn_tensor_unref(b->where);
	tarn_tensor_unref(b->x);
	tarn_tensor_unref(b->y);
	tarn_tensor_unref(b->wide);
	tarn_tensor_unref(b->context);
	tarn_tensor_unref(b->heads);
	tarn_tensor_unref(b->norm);
	for (int i = 0; i < 3; i++) {
		tarn_tensor_unref(b->part[i]);
		tarn_tensor_unref(b->head[i]);
	}
	*b = (struct buffers) {0};
}

void minilm_free(struct minilm *model)
{
	if (!model)
		return;
	drop_buffers(&model->buffers);
	tarn_module_unref(model->tree);
	free(model->layers);
	free(model);
}

/* [b, l, width] as [b, heads, l, HEAD]: a view, in which the attention reads and
 * writes. */
static int by_heads(tarn_tensor *t, tarn_tensor **ret)
{
	char view[64];
	const struct tarn_layout *l = tarn_tensor_layout(t);

	snprintf(view, sizeof(view), ".split(2, %lld, %d).permute(0, 2, 1, 3)",
		(long long)(l->shape[2] / HEAD), HEAD);
	return tarn_tensor_eval(t, view, ret);
}

static int make(struct minilm *m, int64_t batch, int64_t length)
{
	struct buffers *b = &m->buffers;
	const int64_t x[] = {batch, length, m->width};
	const int64_t wide[] = {batch, length, m->inner};
	tarn_tensor **plain[] = {&b->x, &b->y, &b->context, &b->part[0],
		&b->part[1], &b->part[2]};
	int r = 0;

	if (b->batch == batch && b->length == length)
		return 0;
	drop_buffers(b);
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]) && r >= 0; i++)
		r = tarn_tensor_zeros(TARN_F32, 3, x, plain[i]);
	for (int i = 0; i < 3 && r >= 0; i++)
		r = by_heads(b->part[i], &b->head[i]);
	if (r >= 0)
		r = by_heads(b->context, &b->heads);
	if (r >= 0)
		r = tarn_tensor_zeros(TARN_F32, 3, wide, &b->wide);
	if (r >= 0)
		r = tarn_tensor_zeros(TARN_BOOL, 2, x, &b->mask);
	if (r >= 0)
		r = tarn_tensor_eval(b->mask, "[:, None, None, :]", &b->where);
	if (r < 0) {
		drop_buffers(b);
		return r;
	}
	b->batch = batch;
	b->length = length;
	return 0;
}

/* ---- the network --------------------------------------------------------------- */

static int dense(tarn_state *s, const struct dense *d, const tarn_tensor *x,
	tarn_tensor **out)
{
	return tarn_linear(x, tarn_state_tensor(s, d->weight),
		tarn_state_tensor(s, d->bias), out);
}

static int norm(tarn_state *s, const struct dense *d, tarn_tensor **x)
{
	return tarn_layer_norm(*x, 1, tarn_state_tensor(s, d->weight),
		tarn_state_tensor(s, d->bias), EPSILON, x);
}

static int embed(struct minilm *m, tarn_state *s, const tarn_tensor *ids)
{
	struct buffers *b = &m->buffers;
	tarn_tensor *places = NULL, *type = NULL;
	int r;

	r = tarn_binary(TARN_NE, tarn_of(ids), tarn_int(0), &b->mask);
	if (r >= 0)
		r = tarn_index_select(
			tarn_state_tensor(s, m->words), 0, ids, &b->x);
	if (r >= 0)
		r = tarn_tensor_narrow(tarn_state_tensor(s, m->positions), 0, 0,
			b->length, &places);
	if (r >= 0)
		r = tarn_add(b->x, places, &b->x);
	if (r >= 0)
		r = tarn_tensor_select(
			tarn_state_tensor(s, m->types), 0, 0, &type);
	if (r >= 0)
		r = tarn_add(b->x, type, &b->x);
	if (r >= 0)
		r = norm(s, &m->norm, &b->x);
	tarn_tensor_unref(places);
	tarn_tensor_unref(type);
	return r;
}

static int layer(struct buffers *b, tarn_state *s, const struct layer *l)
{
	const struct tarn_attention_options options = {.mask = b->where};
	const struct dense *part[] = {&l->query, &l->key, &l->value};
	int r = 0;

	for (int i = 0; i < 3 && r >= 0; i++)
		r = dense(s, part[i], b->x, &b->part[i]);
	if (r >= 0)
		r = tarn_attention(b->head[0], b->head[1], b->head[2], &options,
			&b->heads);
	if (r >= 0)
		r = dense(s, &l->joined, b->context, &b->y);
	if (r >= 0)
		r = tarn_add(b->x, b->y, &b->x);
	if (r >= 0)
		r = norm(s, &l->joined_norm, &b->x);
	if (r >= 0)
		r = dense(s, &l->wide, b->x, &b->wide);
	if (r >= 0)
		r = tarn_gelu(b->wide, &b->wide);
	if (r >= 0)
		r = dense(s, &l->narrow, b->wide, &b->y);
	if (r >= 0)
		r = tarn_add(b->x, b->y, &b->x);
	if (r >= 0)
		r = norm(s, &l->norm, &b->x);
	return r;
}

/* The mean over the tokens that are there, as a vector of length 1. */
static int pool(struct buffers *b, tarn_tensor *out)
{
	const int token = 1, feature = 1;
	tarn_tensor *mask = NULL;
	int r = tarn_tensor_unsqueeze(b->mask, 2, &mask);

	if (r >= 0)
		r = tarn_mul(b->x, mask, &b->x);
	if (r >= 0)
		r = tarn_reduce(TARN_SUM, b->x, 1, &token, 0, &out);
	/* The mean has the direction of the sum, which is all that is left. */
	if (r >= 0)
		r = tarn_norm(out, 1, &feature, 2, TARN_KEEP_DIMS, &b->norm);
	if (r >= 0)
		r = tarn_div(out, b->norm, &out);
	tarn_tensor_unref(mask);
	return r;
}

int minilm_run(struct minilm *model, tarn_state *state, const tarn_tensor *ids,
	tarn_tensor *out)
{
	const struct tarn_layout *l = tarn_tensor_layout(ids);
	int64_t most = extent_of(model->positions, 0);
	int r;

	if (l->ndim != 2 || l->shape[1] < 1 || l->shape[1] > most)
		return tarn_error_set(EINVAL,
			"token numbers are wanted as [batch, 1 to %lld]",
			(long long)most);
	r = make(model, l->shape[0], l->shape[1]);
	if (r >= 0)
		r = embed(model, state, ids);
	for (int i = 0; i < model->n_layers && r >= 0; i++)
		r = layer(&model->buffers, state, &model->layers[i]);
	return r < 0 ? r : pool(&model->buffers, out);
}
