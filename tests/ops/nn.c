/* SPDX-License-Identifier: MIT */
/*
 * Module trees without a daemon: made by hand and from files; their order, look-
 * ups, counts, marks, conversions; state that goes out to a file and comes in
 * from another tree; and what each mistake is answered with.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ops/nn_kit.h"

/* ---- order --------------------------------------------------------------- */

static char seen[4096];

static void note(const char *text)
{
	strncat(seen, *text ? text : "(root)", sizeof(seen) - strlen(seen) - 1);
	strncat(seen, " ", sizeof(seen) - strlen(seen) - 1);
}

static int note_module(void *arg, tarn_module *m)
{
	(void)arg;
	note(tarn_module_path(m));
	return 0;
}

static int note_parameter(void *arg, tarn_parameter *p)
{
	(void)arg;
	note(tarn_parameter_path(p));
	return 0;
}

static int stop_at(void *arg, tarn_module *m)
{
	return strcmp(tarn_module_path(m), arg) == 0 ? 7 : 0;
}

static void test_order(void)
{
	static const char *const paths[] = {"layer.10.w", "layer.2.w",
		"layer.9.w", "layer.9-x.w", "b.bias", "b.weight", "conv10",
		"conv2", "a"};
	tarn_module *m, *layer;
	tarn_module *const *children;
	tarn_parameter *const *own;

	need(tarn_module_new(&m));
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
		nn_add(m, paths[i], nn_full(TARN_F32, 1, 0, (double)i));
	seen[0] = '\0';
	need(tarn_module_walk(m, note_module, NULL));
	is_str("(root) b layer layer.2 layer.9 layer.9-x layer.10 ", seen,
		"modules are walked in natural order, parents first");
	seen[0] = '\0';
	need(tarn_module_apply(m, note_module, NULL));
	is_str("b layer.2 layer.9 layer.9-x layer.10 layer (root) ", seen,
		"apply visits the children first");
	seen[0] = '\0';
	need(tarn_module_each(m, note_parameter, NULL));
	is_str("a conv2 conv10 b.bias b.weight layer.2.w layer.9.w "
	       "layer.9-x.w layer.10.w ",
		seen, "a module's own tensors come before its children's");
	is_int(7, tarn_module_walk(m, stop_at, (void *)"layer.9"),
		"a walk stops with what the callback returns");
	need(tarn_module_find(m, "layer", &layer));
	is_int(4, (int64_t)tarn_module_children(layer, &children),
		"a list has its children");
	is_str("10", tarn_module_name(children[3]),
		"child 10 of a list comes behind child 9");
	ok(tarn_module_parent(children[3]) == layer && !tarn_module_parent(m),
		"a child knows its parent, and the root has none");
	is_int(1, (int64_t)tarn_module_parameters(children[0], &own),
		"a module has its own tensors alone");
	is_str("layer.2.w", tarn_parameter_path(own[0]),
		"a tensor has its path from the root");
	tarn_module_unref(m);
}

/* The order of one pair of names, whichever is added first. */
static void orders(const char *a, const char *b)
{
	for (int swapped = 0; swapped < 2; swapped++) {
		tarn_module *m;
		tarn_parameter *const *own;

		need(tarn_module_new(&m));
		nn_add(m, swapped ? b : a, nn_full(TARN_F32, 1, 0, 0));
		nn_add(m, swapped ? a : b, nn_full(TARN_F32, 1, 0, 0));
		(void)tarn_module_parameters(m, &own);
		is_str(a, tarn_parameter_name(own[0]), "%s is before %s", a, b);
		tarn_module_unref(m);
	}
}

static void test_names(void)
{
	orders("2", "10");
	orders("1", "01");
	orders("1", "02");
	orders("99999999999999999999999", "100000000000000000000000");
	orders("a1b2", "a1b10");
	orders("a", "a0");
	orders("7", "a");
}

/* ---- looking up ---------------------------------------------------------- */

static void test_look_up(void)
{
	tarn_module *m, *found = NULL;
	tarn_parameter *p, *q;

	need(tarn_module_new(&m));
	p = nn_add(m, "enc.layer.0.w", nn_full(TARN_F32, 2, 3, 5));
	need(tarn_module_find(m, "enc.layer.0", &found));
	is_str("enc.layer.0", tarn_module_path(found), "a module is found");
	need(tarn_module_find_parameter(found, "w", &q));
	ok(p == q, "a path counts from the module that is asked");
	need(tarn_module_find(m, "", &found));
	ok(found == m, "the empty path is the module itself");
	is_int(-ENOENT, tarn_module_find(m, "enc.layers.0", &found),
		"a module that is not there is not found");
	is_str("'enc' has no module 'layers'", tarn_error_message(),
		"the sentence names where the path ends");
	is_int(-ENOENT, tarn_module_find_parameter(m, "enc.layer.0.b", &q),
		"a tensor that is not there is not found");
	is_str("'enc.layer.0' has no tensor 'b'", tarn_error_message(),
		"the sentence names the module without it");
	is_int(-ENOENT, tarn_module_find_parameter(m, "enc.layer", &q),
		"a module is no tensor");
	is_int(-ENOENT, tarn_module_find(m, "enc.layer.0.w", &found),
		"a tensor is no module");
	is_int(-ENOENT, tarn_module_find_parameter(m, "", &q),
		"the empty path is no tensor");
	is_int(-ENOENT, tarn_module_find_parameter(m, "enc..w", &q),
		"an empty name is not found");
	tarn_module_unref(m);
}

static void refused(tarn_module *m, const char *path, int error,
	const char *part, const char *what)
{
	tarn_tensor *t = nn_full(TARN_F32, 1, 0, 0);

	is_int(-error, tarn_module_add_parameter(m, path, t, NULL), "%s", what);
	has_str(part, tarn_error_message(), "%s: the sentence", what);
	tarn_tensor_unref(t);
}

static void test_refused(void)
{
	char deep[TARN_NAME_MAX + 8] = "x", fits[2 * TARN_MODULE_DEPTH_MAX];
	struct tarn_module_counts counts;
	tarn_module *m, *child;

	need(tarn_module_new(&m));
	nn_add(m, "a.w", nn_full(TARN_F32, 1, 0, 0));
	refused(m, "a.w", EEXIST, "already", "a path that is there");
	refused(m, "a", EEXIST, "already", "a tensor in a module's place");
	refused(m, "a.w.x", EINVAL, "'a.w' is a tensor",
		"a tensor below a tensor");
	refused(m, "", EINVAL, "empty name", "no path");
	refused(m, "b..c", EINVAL, "empty name", "an empty name");
	refused(m, "b.c.", EINVAL, "empty name", "an empty last name");
	for (int i = 0; i < TARN_MODULE_DEPTH_MAX; i++)
		strcat(deep, ".x");
	refused(m, deep, E2BIG, "can have 64", "a tree that is too deep");
	memcpy(fits, deep, 2 * TARN_MODULE_DEPTH_MAX - 1);
	fits[2 * TARN_MODULE_DEPTH_MAX - 1] = '\0';
	nn_add(m, fits, nn_full(TARN_F32, 1, 0, 0));
	memset(deep, 'n', TARN_NAME_MAX + 1);
	deep[TARN_NAME_MAX + 1] = '\0';
	refused(m, deep, ENAMETOOLONG, "1024 bytes", "a path that is too long");
	is_int(-EEXIST, tarn_module_add_child(m, "a.w", &child),
		"a module in a tensor's place is refused");
	need(tarn_module_add_child(m, "a", &child));
	is_str("a", tarn_module_path(child), "a module that is there is given");
	need(tarn_module_count(m, 0, &counts));
	is_int(2, (int64_t)counts.parameters, "what was refused is not there");
	is_int(1 + 1 + TARN_MODULE_DEPTH_MAX - 1, (int64_t)counts.modules,
		"no modules are left of what was refused");
	is_int(-EINVAL, tarn_module_count(m, 2, &counts),
		"unknown flags are refused");
	is_int(-ENOTSUP, tarn_module_refresh(m),
		"a tree that is bound to no names cannot be refreshed");
	is_int(-ENOTSUP, tarn_module_wait(m, 0),
		"a tree that is bound to no names cannot be waited for");
	tarn_module_unref(m);
}

/* ---- counts and marks ---------------------------------------------------- */

static void test_counts(void)
{
	struct tarn_module_counts counts;
	tarn_module *m, *head;
	tarn_parameter *p, *buffer;
	tarn_tensor *t = nn_full(TARN_F32, 4, 3, 1), *view, *ids;

	need(tarn_module_new(&m));
	need(tarn_module_add_parameter(m, "emb.weight", t, NULL));
	need(tarn_module_add_parameter(m, "head.weight", t, &p));
	need(tarn_tensor_transpose(t, 0, 1, &view));
	nn_add(m, "head.turned", view);
	ids = nn_full(TARN_I64, 5, 0, 0);
	need(tarn_module_add_buffer(m, "emb.ids", ids, &buffer));
	need(tarn_module_count(m, 0, &counts));
	is_int(2, (int64_t)counts.parameters,
		"tied tensors count once, a view of other order by itself");
	is_int(24, (int64_t)counts.elements,
		"elements of tied tensors count once");
	is_int(1, (int64_t)counts.buffers, "buffers count by themselves");
	is_int(24 * 4 + 5 * 8, (int64_t)counts.bytes,
		"bytes are of parameters and buffers");
	is_int(3, (int64_t)counts.modules, "the root is a module");
	need(tarn_module_count(m, TARN_COUNT_TIED, &counts));
	is_int(36, (int64_t)counts.elements,
		"tied tensors count for each path on request");
	need(tarn_module_find(m, "head", &head));
	tarn_module_set_trainable(head, false);
	ok(!tarn_parameter_trainable(p), "a mark is set below a module");
	ok(tarn_parameter_trainable(nn_find(m, "emb.weight")),
		"a mark is not set beside the module");
	need(tarn_module_count(m, TARN_COUNT_TIED, &counts));
	is_int(12, (int64_t)counts.trainable, "trainable elements are counted");
	tarn_module_set_trainable(m, true);
	ok(tarn_parameter_trainable(p) && !tarn_parameter_trainable(buffer),
		"buffers are never trainable");
	is_int(-EINVAL, tarn_parameter_set_trainable(buffer, true),
		"to mark a buffer is refused");
	need(tarn_parameter_set_trainable(p, false));
	ok(!tarn_parameter_trainable(p), "a parameter is marked by itself");
	tarn_tensor_unref(t);
	tarn_tensor_unref(ids);
	tarn_module_unref(m);
}

/* ---- files --------------------------------------------------------------- */

static tarn_module *model(double value)
{
	tarn_module *m;
	tarn_tensor *t;

	need(tarn_module_new(&m));
	nn_add(m, "bert.layer.0.weight", nn_full(TARN_F32, 3, 4, value));
	nn_add(m, "bert.layer.0.bias", nn_full(TARN_F32, 3, 0, value));
	nn_add(m, "bert.layer.1.weight", nn_full(TARN_F32, 4, 3, value));
	t = nn_full(TARN_F32, 3, 0, value);
	need(tarn_module_add_buffer(m, "bert.norm.running_mean", t, NULL));
	tarn_tensor_unref(t);
	t = nn_full(TARN_I64, 1, 0, value);
	need(tarn_module_add_buffer(m, "bert.norm.steps", t, NULL));
	tarn_tensor_unref(t);
	return m;
}

static bool by_path(void *arg, const char *path, const tarn_tensor *tensor)
{
	(void)tensor;
	return strstr(path, arg) != NULL;
}

static size_t buffers_of(
	tarn_file *file, const struct tarn_module_options *options)
{
	struct tarn_module_counts counts;
	tarn_module *m;

	need(tarn_module_open_file(file, options, &m));
	need(tarn_module_count(m, 0, &counts));
	tarn_module_unref(m);
	return counts.buffers;
}

static void test_buffers(tarn_file *file)
{
	static const char *const ends[] = {"running_mean", "mean", "0.bias"};
	struct tarn_module_options options = {.buffers = ends, .n_buffers = 3};

	is_int(1, (int64_t)buffers_of(file, NULL),
		"integers are buffers, and floats are parameters");
	is_int(3, (int64_t)buffers_of(file, &options),
		"names at the end of paths tell buffers");
	options.is_buffer = by_path;
	options.arg = (void *)"weight";
	is_int(2, (int64_t)buffers_of(file, &options),
		"a callback alone tells buffers");
	options.reserved[7] = 1;
	is_int(-EINVAL,
		tarn_module_open_file(file, &options, &(tarn_module *) {NULL}),
		"a reserved word that is not 0 is refused");
}

static void test_file(const char *path)
{
	struct tarn_module_options options = {.prefix = "bert.layer."};
	struct tarn_module_difference d;
	tarn_module *m = model(3), *again, *part;
	tarn_file *file;
	tarn_tensor *t;

	need(tarn_module_save(m, path, NULL));
	need(tarn_file_open(path, &file));
	need(tarn_module_open_file(file, NULL, &again));
	need(tarn_module_load_state(m, again, true, &d));
	is_int(0, (int64_t)(d.missing + d.unexpected + d.mismatched),
		"a saved tree comes back as it was");
	t = tarn_parameter_tensor(nn_find(m, "bert.layer.1.weight"));
	is_int(TARN_STORAGE_MAPPED, tarn_storage_kind(tarn_tensor_storage(t)),
		"the tensors of a file are mapped, not copied");
	tarn_tensor_unref(t);
	need(tarn_module_open_file(file, &options, &part));
	is_int(3, (int64_t)nn_value(part, "0.bias"),
		"a prefix is taken off the paths");
	tarn_module_unref(part);
	options.prefix = "gpt.";
	is_int(-ENOENT, tarn_module_open_file(file, &options, &part),
		"a prefix that no name has is an error");
	test_buffers(file);
	need(tarn_module_find(m, "bert.layer.0", &part));
	need(tarn_module_save(part, path, NULL));
	tarn_file_unref(file);
	need(tarn_file_open(path, &file));
	ok(tarn_file_count(file) == 2 && tarn_file_find(file, "bias"),
		"a module is saved under the paths below it");
	tarn_file_unref(file);
	tarn_module_unref(again);
	tarn_module_unref(m);
	remove(path);
}

/* ---- state in ------------------------------------------------------------ */

static tarn_module *other_model(void)
{
	tarn_module *m;

	need(tarn_module_new(&m));
	nn_add(m, "bert.layer.0.weight", nn_full(TARN_F32, 3, 4, 9));
	nn_add(m, "bert.layer.0.bias", nn_full(TARN_F32, 4, 0, 9));
	nn_add(m, "bert.layer.1.weight", nn_full(TARN_F16, 4, 3, 9));
	nn_add(m, "bert.layer.2.weight", nn_full(TARN_F32, 4, 3, 9));
	return m;
}

static void test_differences(void)
{
	struct tarn_module_difference d;
	tarn_module *m = model(1), *from = other_model();

	is_int(-EINVAL, tarn_module_load_state(m, from, true, &d),
		"a state that differs is refused");
	is_str("load_state: missing: bert.norm.running_mean, bert.norm.steps; "
	       "unexpected: bert.layer.2.weight; of another shape or dtype: "
	       "bert.layer.0.bias is F32[4], not F32[3], bert.layer.1.weight "
	       "is F16[4, 3], not F32[4, 3]",
		tarn_error_message(), "one sentence has all differences");
	ok(d.missing == 2 && d.unexpected == 1 && d.mismatched == 2,
		"the numbers of differences are given");
	is_int(1, (int64_t)nn_value(m, "bert.layer.0.weight"),
		"nothing is loaded of a state that differs");
	is_int(-EINVAL, tarn_module_load_state(m, from, false, &d),
		"another shape is refused without strict, too");
	is_int(1, (int64_t)nn_value(m, "bert.layer.0.weight"),
		"nothing is loaded of a state with another shape");
	tarn_module_unref(from);
	need(tarn_module_new(&from));
	nn_add(from, "bert.layer.0.bias", nn_full(TARN_F32, 3, 0, 9));
	nn_add(from, "more", nn_full(TARN_F32, 3, 0, 9));
	need(tarn_module_load_state(m, from, false, &d));
	ok(d.missing == 4 && d.unexpected == 1,
		"without strict what differs is counted");
	is_int(9, (int64_t)nn_value(m, "bert.layer.0.bias"),
		"without strict, what both trees have is loaded");
	is_int(1, (int64_t)nn_value(m, "bert.layer.0.weight"),
		"without strict, what one tree has stays");
	tarn_module_unref(from);
	tarn_module_unref(m);
}

static void test_many_differences(void)
{
	tarn_module *m = model(1), *from;
	char path[200];

	need(tarn_module_new(&from));
	for (int i = 0; i < 100; i++) {
		memset(path, 'n', sizeof(path));
		snprintf(path + 150, 20, "%d", i);
		nn_add(from, path, nn_full(TARN_F32, 1, 0, 0));
	}
	is_int(-EINVAL, tarn_module_load_state(m, from, true, NULL),
		"a hundred differences are refused");
	has_str("and 96 more", tarn_error_message(), "the sentence is bounded");
	has_str("missing: bert.layer.0.bias, bert.layer.0.weight, "
		"bert.layer.1.weight, bert.norm.running_mean and 1 more;",
		tarn_error_message(), "long names leave room for the rest");
	tarn_module_unref(from);
	tarn_module_unref(m);
}

static void test_states(void)
{
	tarn_module *m = model(1), *from = model(2), *other = model(3), *layer,
		    *own;
	tarn_parameter *p = nn_find(m, "bert.layer.0.bias"), *late;
	tarn_state *state = tarn_module_hold(m);
	tarn_tensor *t = tarn_state_tensor(state, p);

	need(tarn_module_load_state(m, from, true, NULL));
	is_int(1, (int64_t)nn_first(t), "a held state keeps its tensors");
	is_int(2, (int64_t)nn_value(m, "bert.layer.0.bias"),
		"a tree has the tensors that it loaded");
	late = nn_add(m, "late", nn_full(TARN_F32, 1, 0, 4));
	ok(!tarn_state_tensor(state, late),
		"a state does not have what was added later");
	ok(!tarn_state_tensor(state, nn_find(other, "bert.layer.0.bias")),
		"a state does not have what is another tree's");
	is_int(0, (int64_t)tarn_state_commit(state),
		"a tree that is bound to no store has no commit");
	need(tarn_module_find(other, "bert.layer", &layer));
	need(tarn_module_find(m, "bert.layer", &own));
	need(tarn_module_load_state(own, layer, true, NULL));
	is_int(3, (int64_t)nn_value(m, "bert.layer.0.bias"),
		"the state of a module is loaded by itself");
	is_int(2, (int64_t)nn_value(m, "bert.norm.steps"),
		"the rest of a tree stays when a module loads a state");
	ok(tarn_module_ref(layer) == layer && !tarn_module_unref(layer),
		"a reference to a module is one to its tree");
	tarn_module_unref(m);
	is_int(1, (int64_t)nn_first(t), "a state outlives its tree");
	ok(tarn_state_ref(state) == state && !tarn_state_unref(state) &&
			!tarn_state_unref(state),
		"a state is dropped as often as it was held");
	tarn_module_unref(from);
	tarn_module_unref(other);
}

/* ---- conversions --------------------------------------------------------- */

static enum tarn_dtype dtype_of(tarn_module *m, const char *path)
{
	tarn_tensor *t = tarn_parameter_tensor(nn_find(m, path));
	enum tarn_dtype dtype = tarn_tensor_layout(t)->dtype;

	tarn_tensor_unref(t);
	return dtype;
}

static void test_to(void)
{
	struct tarn_module_counts counts;
	tarn_module *m = model(1), *from = model(5), *layer;
	tarn_tensor *tied = nn_full(TARN_F32, 8, 0, 6), *before, *after;

	need(tarn_module_add_parameter(m, "tied.a", tied, NULL));
	need(tarn_module_add_parameter(m, "tied.b", tied, NULL));
	need(tarn_module_find(m, "bert.layer.0", &layer));
	need(tarn_module_to(layer, TARN_BF16, NULL));
	is_int(TARN_BF16, dtype_of(m, "bert.layer.0.bias"),
		"a module is converted");
	is_int(TARN_F32, dtype_of(m, "bert.layer.1.weight"),
		"a module beside the converted one stays");
	before = tarn_parameter_tensor(nn_find(m, "bert.layer.0.bias"));
	need(tarn_module_to(m, TARN_BF16, "cpu"));
	after = tarn_parameter_tensor(nn_find(m, "bert.layer.0.bias"));
	ok(before == after, "what is right already stays what it is");
	tarn_tensor_unref(before);
	tarn_tensor_unref(after);
	is_int(TARN_I64, dtype_of(m, "bert.norm.steps"),
		"integers are not converted");
	is_int(1, (int64_t)nn_value(m, "bert.layer.0.weight"),
		"a conversion keeps the values");
	need(tarn_module_count(m, 0, &counts));
	is_int(4, (int64_t)counts.parameters, "tied tensors stay tied");
	need(tarn_module_load_state(m, from, false, NULL));
	is_int(TARN_BF16, dtype_of(m, "bert.layer.0.bias"),
		"tensors that are loaded later are converted, too");
	is_int(5, (int64_t)nn_value(m, "bert.layer.0.bias"),
		"what is loaded and converted has the values that were loaded");
	is_int(-EINVAL, tarn_module_load_state(from, m, false, NULL),
		"what was converted does not fit another tree any more");
	tarn_tensor_unref(tied);
	tarn_module_unref(from);
	tarn_module_unref(m);
}

static void test_to_refused(void)
{
	tarn_module *m = model(1);

	is_int(-EINVAL, tarn_module_to(m, TARN_I32, NULL),
		"an integer dtype is refused");
	is_str("to: dtype I32 is not a floating one", tarn_error_message(),
		"the sentence of an integer dtype names it");
	is_int(-EINVAL, tarn_module_to(m, 99, NULL),
		"an invalid dtype is refused");
	ok(tarn_module_to(m, TARN_F16, "gpu7") < 0,
		"a device of an unknown name is refused");
	has_str("gpu7", tarn_error_message(),
		"the sentence of an unknown device names it");
	is_int(TARN_F32, dtype_of(m, "bert.layer.0.bias"),
		"nothing is converted when a conversion is refused");
	tarn_module_unref(m);
}

int main(void)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/m.safetensors", test_tmpdir());
	test_order();
	test_names();
	test_look_up();
	test_refused();
	test_counts();
	test_file(path);
	test_differences();
	test_many_differences();
	test_states();
	test_to();
	test_to_refused();
	return done(115);
}
