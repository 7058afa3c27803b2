// SPDX-License-Identifier: MIT
/*
 * Every operation of tarn/ops.h that writes a tensor, with each kind of
 * destination: a slot of a channel, whose item then has the result; a view with
 * gaps, around which no byte changes; and a published tensor, which is read-only:
 * -EROFS, and no byte of it changes. The table is compared with the header, so
 * that a new operation fails here until it has its line.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/tap.h"
#include "tests/ops/nn_sets.h"
#include "tests/ops/operations.h"
#include "tests/ops/tensors.h"

/* ---- the header ------------------------------------------------------------- */

static bool in_table(const char *name, size_t length)
{
	for (size_t i = 0; i < operations_count; i++)
		if (strlen(operations[i].name) == length &&
			!memcmp(operations[i].name, name, length))
			return true;
	return false;
}

/* How many functions of the header write a tensor; those that the table lacks are
 * printed. */
static size_t functions_of(char *header, bool *ret_all)
{
	static const char mark[] = "TARN_PUBLIC int ";
	size_t count = 0;

	*ret_all = true;
	for (char *at = strstr(header, mark); at; at = strstr(at, mark)) {
		char *name = at += sizeof(mark) - 1;
		size_t length = strcspn(name, "(");
		char *end = strchr(name, ';');

		if (!end)
			break;
		*end = '\0';
		at = end + 1;
		if (!strstr(name, "tarn_tensor **out") &&
			!strstr(name, "tarn_tensor *dst"))
			continue;
		count++;
		if (in_table(name, length))
			continue;
		*ret_all = false;
		diag("%.*s is not in the table", (int)length, name);
	}
	return count;
}

static void test_table(void)
{
	const char *folder = getenv("top_srcdir");
	char path[4096], *text = calloc(1, 1 << 20);
	bool all = false;
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/ops/include/tarn/ops.h",
		folder ? folder : ".");
	f = fopen(path, "re");
	if (!f || !text)
		bail("%s: %m", path);
	n = fread(text, 1, (1 << 20) - 1, f);
	fclose(f);
	ok(n > 10000, "the header is read");
	is_int((int64_t)operations_count, (int64_t)functions_of(text, &all),
		"the table has as many functions as the header");
	ok(all, "each function of the header that writes a tensor is in it");
	free(text);
}

/* ---- destinations -------------------------------------------------------------- */

/* What operations that write a part find there. */
static void prepare(const struct operation *line, tarn_tensor *to)
{
	if (line->writes)
		must(tarn_copy(to, operations_before(), NULL, NULL));
}

static tarn_tensor *reference(const struct operation *line, int op)
{
	tarn_tensor *t = NULL;

	if (line->writes)
		must(tarn_tensor_clone(operations_before(), &t));
	must(line->call(op, &t));
	return t;
}

/* BLAS may add up in another order where the strides are other ones. */
static bool agree(const tarn_tensor *t, const tarn_tensor *wanted)
{
	double *numbers = tensor_numbers(wanted);
	bool same = tensor_agrees(t,
		tarn_layout_numel(tarn_tensor_layout(wanted)), numbers, 1e-5);

	free(numbers);
	return same;
}

static bool to_slot(const struct operation *line, int op, tarn_channel *channel,
	const tarn_tensor *wanted)
{
	const struct tarn_layout *l = tarn_tensor_layout(wanted);
	tarn_tensor *out, *slots, *received;
	tarn_slot *slot;
	tarn_item *item;
	bool good;
	int r;

	must(tarn_channel_acquire(channel, 0, &slot));
	must(tarn_slot_new_tensor(
		slot, (enum tarn_dtype)l->dtype, l->ndim, l->shape, &slots));
	prepare(line, slots);
	out = slots;
	r = line->call(op, &out);
	good = r >= 0 && out == slots;
	if (!good)
		diag("to a slot: %d, %s", r, tarn_error_message());
	must(tarn_slot_publish(slot));
	tarn_tensor_unref(slots);
	must(tarn_channel_receive(channel, 0, &item));
	must(tarn_item_tensor(item, 0, &received));
	good = good && agree(received, wanted);
	tarn_tensor_unref(received);
	tarn_item_unref(item);
	return good;
}

/* Every second element of larger extents, backwards along the first. */
static tarn_tensor *view_of(
	const struct tarn_layout *l, tarn_tensor **ret_whole)
{
	int64_t shape[TARN_NDIM_MAX] = {0};
	tarn_tensor *t, *next;

	for (int i = 0; i < l->ndim; i++)
		shape[i] = 2 * l->shape[i] + 1;
	must(tarn_tensor_zeros(
		(enum tarn_dtype)l->dtype, l->ndim, shape, ret_whole));
	t = tarn_tensor_ref(*ret_whole);
	for (int i = 0; i < l->ndim; i++) {
		must(tarn_tensor_slice(
			t, i, i ? 1 : -2, TARN_NONE, i ? 2 : -2, &next));
		tarn_tensor_unref(t);
		t = next;
	}
	return t;
}

static bool to_view(
	const struct operation *line, int op, const tarn_tensor *wanted)
{
	tarn_tensor *whole, *other_whole, *out, *view, *other;
	size_t size;
	bool good;
	int r;

	view = view_of(tarn_tensor_layout(wanted), &whole);
	other = view_of(tarn_tensor_layout(wanted), &other_whole);
	size = (size_t)tarn_storage_size(tarn_tensor_storage(whole));
	memset(tarn_storage_data(tarn_tensor_storage(whole)), 1, size);
	memset(tarn_storage_data(tarn_tensor_storage(other_whole)), 1, size);
	prepare(line, view);
	out = view;
	r = line->call(op, &out);
	good = r >= 0 && out == view && agree(view, wanted);
	if (!good)
		diag("to a view: %d, %s", r, tarn_error_message());
	/* With the same elements there, all other bytes are the same. */
	must(tarn_copy(other, view, NULL, NULL));
	if (memcmp(tarn_storage_data(tarn_tensor_storage(whole)),
		    tarn_storage_data(tarn_tensor_storage(other_whole)),
		    size) != 0) {
		diag("bytes beside the view were written");
		good = false;
	}
	tarn_tensor_unref(view);
	tarn_tensor_unref(other);
	tarn_tensor_unref(whole);
	tarn_tensor_unref(other_whole);
	return good;
}

static bool to_published(
	const struct operation *line, int op, const tarn_tensor *wanted)
{
	const struct tarn_layout *l = tarn_tensor_layout(wanted);
	size_t size = (size_t)tarn_layout_nbytes(l);
	tarn_tensor *made, *there, *out;
	void *before = malloc(size + 1);
	bool good;
	int r;

	must(tarn_store_create(nn_store, (enum tarn_dtype)l->dtype, l->ndim,
		l->shape, 0, &made));
	memset(tarn_tensor_data(made), 1, size);
	memcpy(before, tarn_tensor_data(made), size);
	must(tarn_store_publish_one(nn_store, line->name, made, NULL, NULL));
	tarn_tensor_unref(made);
	must(tarn_store_get(nn_store, line->name, NULL, &there));
	out = there;
	r = line->call(op, &out);
	good = r == -EROFS && out == there &&
	       !memcmp(before, tarn_tensor_data(there), size);
	if (!good)
		diag("to a published tensor: %d, %s", r, tarn_error_message());
	tarn_tensor_unref(there);
	must(tarn_store_remove(nn_store, line->name));
	free(before);
	return good;
}

static void test_line(const struct operation *line, tarn_channel *channel)
{
	bool slot = true, view = true, published = true;

	for (int op = 0; op < line->ops; op++) {
		tarn_tensor *wanted = reference(line, op);
		bool a = to_slot(line, op, channel, wanted);
		bool b = to_view(line, op, wanted);
		bool c = to_published(line, op, wanted);

		if (!a || !b || !c)
			diag("%s, %d", line->name, op);
		slot = slot && a;
		view = view && b;
		published = published && c;
		tarn_tensor_unref(wanted);
	}
	ok(slot, "%s writes to a slot", line->name);
	ok(view, "%s writes to a view, and nothing beside it", line->name);
	ok(published, "%s does not write to a published tensor", line->name);
}

int main(void)
{
	const struct tarn_channel_options options = {
		.slots = 2, .slot_bytes = 65536};
	tarn_channel *channel;

	test_table();
	nn_begin();
	operations_begin();
	must(tarn_channel_open(nn_store, "results", &options, &channel));
	for (size_t i = 0; i < operations_count; i++)
		test_line(&operations[i], channel);
	tarn_channel_unref(channel);
	operations_end();
	is_int(0, nn_end(), "the daemon ends without an error");
	return done(4 + 3 * (int)operations_count);
}
