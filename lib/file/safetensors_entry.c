/* SPDX-License-Identifier: MIT */
/*
 * One tensor's entry in a safetensors header: dtype, shape, data_offsets, each
 * exactly once and each in a form that serde would accept.
 *
 * The numbers are jansson's, except where those are not enough: beyond 63 bits
 * jansson has reals only, and it turns -0, which serde refuses, into 0. Entries
 * that have one of either are read again from their text.
 */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/file/safetensors.h"

enum field { DTYPE, SHAPE, OFFSETS, FIELDS };
static const char *const field_names[FIELDS] = {
	"dtype", "shape", "data_offsets"};

struct entry {
	const struct safetensors_value *value;
	json_t *fields[FIELDS];
};

/* The text of a field, which is known to occur once. */
static bool field_text(
	const struct entry *e, enum field field, struct json_value *ret)
{
	if (json_is_array(e->value->json))
		return json_element(e->value->tally.text, field, ret);
	return json_count(e->value->tally.text, field_names[field], ret) == 1;
}

static const char *show_field(
	const struct entry *e, enum field field, char buf[static FILE_TEXT_MAX])
{
	struct json_value value;

	return field_text(e, field, &value) ? safetensors_show(value.text, buf)
					    : "";
}

/* {"dtype": ..., "shape": ..., "data_offsets": ...} in any order, other keys
 * ignored; or the three as an array. */
static int find_fields(struct entry *e)
{
	char shown[FILE_TEXT_MAX];
	struct json_value last;

	if (json_is_array(e->value->json)) {
		if (json_array_size(e->value->json) != FIELDS)
			return tarn_fail(EBADMSG,
				"%s has %zu elements, not "
				"dtype, shape and data_offsets",
				safetensors_show(e->value->tally.text, shown),
				json_array_size(e->value->json));
		for (int i = 0; i < FIELDS; i++)
			e->fields[i] =
				json_array_get(e->value->json, (size_t)i);
		return 0;
	}
	if (!json_is_object(e->value->json))
		return tarn_fail(EBADMSG,
			"%s is not an object with dtype, "
			"shape and data_offsets",
			safetensors_show(e->value->tally.text, shown));
	for (int i = 0; i < FIELDS; i++) {
		e->fields[i] = json_object_get(e->value->json, field_names[i]);
		if (!e->fields[i])
			return tarn_fail(
				EBADMSG, "it has no %s", field_names[i]);
		/* Other keys may occur twice; these may not. */
		if (e->value->tally.members !=
				json_object_size(e->value->json) &&
			json_count(e->value->tally.text, field_names[i],
				&last) > 1)
			return tarn_fail(EBADMSG, "it gives its %s twice",
				field_names[i]);
	}
	return 0;
}

/* "F32"; or {"F32": null}, which is how serde writes an enum out in full. */
static int read_dtype(const struct entry *e, enum tarn_dtype *ret)
{
	const json_t *json = e->fields[DTYPE];
	const char *name = json_string_value(json);
	char shown[FILE_TEXT_MAX];
	struct json_value value;

	if (json_is_object(json) && json_object_size(json) == 1 &&
		field_text(e, DTYPE, &value) && value.members == 1) {
		void *iter = json_object_iter((json_t *)json);

		if (json_is_null(json_object_iter_value(iter)))
			name = json_object_iter_key(iter);
	}
	/* Not tarn_dtype_from_name: the format knows no aliases. */
	for (enum tarn_dtype dtype = 1; name && dtype <= TARN_DTYPE_MAX;
		dtype++)
		if (!strcmp(name, tarn_dtype_name(dtype))) {
			*ret = dtype;
			return 0;
		}
	return tarn_fail(EBADMSG, "dtype %s is none of the format's",
		show_field(e, DTYPE, shown));
}

/* As jansson read them, where that is exact. */
static bool plain_numbers(const json_t *array, uint64_t *ret)
{
	size_t n = json_array_size(array);

	for (size_t i = 0; i < n; i++) {
		const json_t *item = json_array_get(array, i);

		if (!json_is_integer(item) || json_integer_value(item) < 0)
			return false;
		ret[i] = (uint64_t)json_integer_value(item);
	}
	return true;
}

/* As they are written, where jansson's numbers hide -0 or have lost digits. */
static bool exact_numbers(
	const struct entry *e, enum field field, uint64_t *ret)
{
	struct json_value value, item;
	struct json_text rest, key;

	if (!field_text(e, field, &value))
		return false;
	rest = value.text;
	while (json_next(&rest, &key, &item))
		if (!json_u64(item.text, ret++))
			return false;
	return true;
}

/* Reads all numbers of the array into ret. */
static int read_numbers(const struct entry *e, enum field field, uint64_t *ret)
{
	char shown[FILE_TEXT_MAX];
	bool exact = e->value->reals || e->value->tally.minus_zero;

	if (exact ? exact_numbers(e, field, ret)
		  : plain_numbers(e->fields[field], ret))
		return 0;
	return tarn_fail(EBADMSG,
		"%s %s has something that is not a whole "
		"number from 0 to 2^64 - 1",
		field_names[field], show_field(e, field, shown));
}

static int read_shape(struct tarn_file *file, const struct entry *e,
	struct tarn_file_entry *tensor)
{
	const json_t *shape = e->fields[SHAPE];
	size_t ndim = json_array_size(shape);
	char shown[FILE_TEXT_MAX];
	uint64_t *sizes;

	if (!json_is_array(shape))
		return tarn_fail(EBADMSG, "shape %s is not an array",
			show_field(e, SHAPE, shown));
	sizes = arena_array(&file->arena, ndim, sizeof(*sizes));
	if (!sizes)
		return file_no_memory("the shape of a tensor");
	/* A header of 100 MB has fewer elements than an int can count. */
	tensor->ndim = (int)ndim;
	tensor->shape = sizes;
	return read_numbers(e, SHAPE, sizes);
}

/* file_offset counts from the data's first byte, until place() moves it. */
static int read_offsets(const struct entry *e, struct tarn_file_entry *tensor)
{
	const json_t *json = e->fields[OFFSETS];
	char shown[FILE_TEXT_MAX];
	uint64_t offsets[2];
	int r;

	if (json_array_size(json) != 2)
		return tarn_fail(EBADMSG, "data_offsets %s is not [begin, end]",
			show_field(e, OFFSETS, shown));
	r = read_numbers(e, OFFSETS, offsets);
	if (r < 0)
		return r;
	if (offsets[1] < offsets[0])
		return tarn_fail(EBADMSG,
			"its bytes end at %" PRIu64
			", before they begin at %" PRIu64,
			offsets[1], offsets[0]);
	tensor->file_offset = offsets[0];
	tensor->nbytes = offsets[1] - offsets[0];
	return 0;
}

/* From left to right, as the reference does: [0, 2^63, 4] has no elements,
 * [2^63, 4, 0] is too large. */
static int check_size(
	const struct entry *e, const struct tarn_file_entry *tensor)
{
	const char *dtype = tarn_dtype_name(tensor->dtype);
	uint64_t bits = 1, one = (uint64_t)tarn_dtype_bits(tensor->dtype);
	char shown[FILE_TEXT_MAX];
	bool over = false;

	for (int i = 0; i < tensor->ndim && !over; i++)
		over = mul_u64(bits, tensor->shape[i], &bits);
	over = over || mul_u64(bits, one, &bits);
	if (!over && bits % 8 == 0 && bits / 8 == tensor->nbytes)
		return 0;
	show_field(e, SHAPE, shown);
	if (over)
		return tarn_fail(
			EBADMSG, "%s %s has more than 2^64 bits", dtype, shown);
	if (bits % 8)
		return tarn_fail(EBADMSG,
			"%s %s has %" PRIu64 " bits, which "
			"is no whole number of bytes",
			dtype, shown, bits);
	return tarn_fail(EBADMSG,
		"%s %s has %" PRIu64 " bytes, data_offsets "
		"give it %" PRIu64,
		dtype, shown, bits / 8, tensor->nbytes);
}

int safetensors_entry(struct tarn_file *file,
	const struct safetensors_value *value, struct tarn_file_entry *ret)
{
	struct entry e = {.value = value};
	int r = find_fields(&e);

	if (r >= 0)
		r = read_dtype(&e, &ret->dtype);
	if (r >= 0)
		r = read_shape(file, &e, ret);
	if (r >= 0)
		r = read_offsets(&e, ret);
	if (r >= 0)
		r = check_size(&e, ret);
	return r;
}
