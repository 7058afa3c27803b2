/* SPDX-License-Identifier: MIT */
/*
 * networks WEIGHTS OUT: the networks that tutorials build from nothing, on
 * tensors of tarn: a perceptron with two layers, attention with several heads,
 * layer normalisation by hand; and a tree of modules that holds them. WEIGHTS is
 * a safetensors file with mlp.*, attention.*, norm.*, and the inputs x.mlp and
 * x.attention; OUT gets what comes out. networks.py does the same in Python.
 */
#include <math.h>
#include <stdio.h>

#include <tarn/nn.h>
#include <tarn/ops.h>
#include <tarn/save.h>
#include <tarn/tarn.h>

#define HEADS 8

/* The weights of one version. The first error stays, and later calls do
 * nothing, so that networks read as what they compute. */
struct run {
	tarn_module *tree;
	tarn_state *state;
	int r;
};

static tarn_tensor *get(struct run *run, const char *path)
{
	tarn_parameter *p = NULL;

	if (run->r >= 0)
		run->r = tarn_module_find_parameter(run->tree, path, &p);
	return run->r < 0 ? NULL : tarn_state_tensor(run->state, p);
}

/* Each takes the reference to x over; NULL: there was an error. */
static tarn_tensor *linear(struct run *run, tarn_tensor *x, const char *layer)
{
	char path[64];
	tarn_tensor *w, *b, *y = NULL;

	snprintf(path, sizeof(path), "%s.weight", layer);
	w = get(run, path);
	snprintf(path, sizeof(path), "%s.bias", layer);
	b = get(run, path);
	if (run->r >= 0)
		run->r = tarn_linear(x, w, b, &y);
	tarn_tensor_unref(x);
	return y;
}

static tarn_tensor *view(
	struct run *run, tarn_tensor *x, const char *expression)
{
	tarn_tensor *y = NULL;

	if (run->r >= 0)
		run->r = tarn_tensor_eval_copy(x, expression, &y);
	tarn_tensor_unref(x);
	return y;
}

/* In place: these tensors are nobody else's. */
static tarn_tensor *in_place(struct run *run, tarn_tensor *x,
	enum tarn_binary_op op, struct tarn_operand y)
{
	if (run->r >= 0)
		run->r = tarn_binary(op, tarn_of(x), y, &x);
	return x;
}

static tarn_tensor *softmax(struct run *run, tarn_tensor *x)
{
	if (run->r >= 0)
		run->r = tarn_softmax(x, -1, &x);
	return x;
}

/* ---- the networks ------------------------------------------------------------ */

/* 784 to 128 to 10, for pictures of digits. */
static tarn_tensor *mlp(struct run *run)
{
	tarn_tensor *h = tarn_tensor_ref(get(run, "x.mlp"));

	h = linear(run, view(run, h, ".flatten(1)"), "mlp.fc1");
	if (run->r >= 0)
		run->r = tarn_relu(h, &h);
	return softmax(run, linear(run, h, "mlp.fc2"));
}

/* [batch, length, width] as [batch, heads, length, width / heads]: a view. */
static tarn_tensor *heads(struct run *run, tarn_tensor *x, const char *layer)
{
	char expression[48];

	snprintf(expression, sizeof(expression),
		".split(2, %d, -1).transpose(1, 2)", HEADS);
	return view(run, linear(run, tarn_tensor_ref(x), layer), expression);
}

/* Each head looks at its own part of the features. */
static tarn_tensor *attention(struct run *run)
{
	tarn_tensor *x = get(run, "x.attention"), *scores = NULL, *y = NULL;
	tarn_tensor *q = heads(run, x, "attention.q");
	tarn_tensor *k = heads(run, x, "attention.k");
	tarn_tensor *v = heads(run, x, "attention.v");
	double size = run->r < 0 ? 1 : (double)tarn_tensor_layout(q)->shape[3];

	k = view(run, k, ".transpose(2, 3)");
	if (run->r >= 0)
		run->r = tarn_matmul(q, k, &scores);
	scores = softmax(
		run, in_place(run, scores, TARN_DIV, tarn_float(sqrt(size))));
	if (run->r >= 0)
		run->r = tarn_matmul(scores, v, &y);
	y = view(run, y, ".transpose(1, 2).flatten(2)");
	tarn_tensor_unref(q);
	tarn_tensor_unref(k);
	tarn_tensor_unref(v);
	tarn_tensor_unref(scores);
	return linear(run, y, "attention.out");
}

/* What tarn_layer_norm does, step by step; extents of 1 are repeated. */
static tarn_tensor *norm(struct run *run, const tarn_tensor *input)
{
	const int last = -1;
	tarn_tensor *mean = NULL, *var = NULL, *y = NULL;

	if (run->r >= 0)
		run->r = tarn_add(get(run, "x.attention"), input, &y);
	if (run->r >= 0)
		run->r = tarn_reduce(
			TARN_MEAN, y, 1, &last, TARN_KEEP_DIMS, &mean);
	if (run->r >= 0)
		run->r = tarn_variance(
			y, 1, &last, 0, false, TARN_KEEP_DIMS, &var);
	y = in_place(run, y, TARN_SUB, tarn_of(mean));
	var = in_place(run, var, TARN_ADD, tarn_float(1e-5));
	if (run->r >= 0)
		run->r = tarn_sqrt(var, &var);
	y = in_place(run, y, TARN_DIV, tarn_of(var));
	y = in_place(run, y, TARN_MUL, tarn_of(get(run, "norm.weight")));
	y = in_place(run, y, TARN_ADD, tarn_of(get(run, "norm.bias")));
	tarn_tensor_unref(mean);
	tarn_tensor_unref(var);
	return y;
}

static int compute(struct run *run, const char *out)
{
	struct tarn_save_item items[] = {
		{.name = "mlp"}, {.name = "attention"}, {.name = "norm"}};
	tarn_tensor *made[3] = {mlp(run), attention(run), NULL};

	made[2] = norm(run, made[1]);
	for (int i = 0; i < 3; i++)
		items[i].tensor = made[i];
	if (run->r >= 0)
		run->r = tarn_save(out, items, 3, NULL, NULL);
	for (int i = 0; i < 3; i++)
		tarn_tensor_unref(made[i]);
	return run->r;
}

int main(int argc, char **argv)
{
	struct run run = {0};
	tarn_file *file = NULL;

	if (argc != 3 || argv[1][0] == '-') {
		fprintf(stderr, "usage: networks WEIGHTS.safetensors "
				"OUT.safetensors\n");
		return 2;
	}
	run.r = tarn_file_open(argv[1], &file);
	if (run.r >= 0)
		run.r = tarn_module_open_file(file, NULL, &run.tree);
	if (run.r >= 0) {
		run.state = tarn_module_hold(run.tree);
		compute(&run, argv[2]);
	}
	if (run.r < 0)
		fprintf(stderr, "networks: %s\n", tarn_error_message());
	tarn_state_unref(run.state);
	tarn_module_unref(run.tree);
	tarn_file_unref(file);
	return run.r < 0;
}
