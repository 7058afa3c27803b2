// SPDX-License-Identifier: MIT
/*
 * The classes and functions that the data of checkpoints need, and what each
 * makes of its arguments. All others are refused, so this list is all that a
 * pickle can do here.
 *
 * Source: torch/_utils.py and torch/serialization.py of PyTorch.
 */
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/file/file.h"
#include "lib/file/pickle_machine.h"

/* PyTorch's own operations take no more. A call names its shape in a few bytes,
 * where it was remembered, and copies it. */
#define NDIM_MAX 64

enum action {
	DICT,    /* an ordered one, of nothing */
	LIST,    /* of its first argument */
	TEXT,    /* its first argument, a name */
	LEAF,    /* no call of it: a dtype */
	STORAGE, /* a class of storages; no call of it either */
	TENSOR,  /* _rebuild_tensor_v2(storage, offset, shape, strides, ...) */
	PARAMETER, /* _rebuild_parameter(tensor, ...) */
};

static const struct {
	const char *module, *name;
	enum action action;
	enum tarn_dtype dtype;
} globals[] = {
	{"collections", "OrderedDict", DICT, 0},
	{"torch._utils", "_rebuild_tensor_v2", TENSOR, 0},
	{"torch._utils", "_rebuild_tensor", TENSOR, 0},
	{"torch._utils", "_rebuild_parameter", PARAMETER, 0},
	{"torch._utils", "_rebuild_parameter_with_state", PARAMETER, 0},
	{"torch", "Size", LIST, 0},
	{"torch", "device", TEXT, 0},
	{"_codecs", "encode", TEXT, 0},
	{"builtins", "set", LIST, 0},
	{"__builtin__", "set", LIST, 0},
	{"builtins", "frozenset", LIST, 0},
	{"__builtin__", "frozenset", LIST, 0},
	{"torch", "DoubleStorage", STORAGE, TARN_F64},
	{"torch", "FloatStorage", STORAGE, TARN_F32},
	{"torch", "HalfStorage", STORAGE, TARN_F16},
	{"torch", "BFloat16Storage", STORAGE, TARN_BF16},
	{"torch", "LongStorage", STORAGE, TARN_I64},
	{"torch", "IntStorage", STORAGE, TARN_I32},
	{"torch", "ShortStorage", STORAGE, TARN_I16},
	{"torch", "CharStorage", STORAGE, TARN_I8},
	{"torch", "ByteStorage", STORAGE, TARN_U8},
	{"torch", "BoolStorage", STORAGE, TARN_BOOL},
	{"torch", "ComplexFloatStorage", STORAGE, TARN_C64},
	{"torch.storage", "UntypedStorage", STORAGE, TARN_U8},
	{"torch", "UntypedStorage", STORAGE, TARN_U8},
	/* Tensors of these have their dtype as an argument of its own. */
	{"torch._utils", "_rebuild_tensor_v3", TENSOR, 0},
	{"torch", "float64", LEAF, TARN_F64},
	{"torch", "float32", LEAF, TARN_F32},
	{"torch", "float16", LEAF, TARN_F16},
	{"torch", "bfloat16", LEAF, TARN_BF16},
	{"torch", "int64", LEAF, TARN_I64},
	{"torch", "int32", LEAF, TARN_I32},
	{"torch", "int16", LEAF, TARN_I16},
	{"torch", "int8", LEAF, TARN_I8},
	{"torch", "uint8", LEAF, TARN_U8},
	{"torch", "uint16", LEAF, TARN_U16},
	{"torch", "uint32", LEAF, TARN_U32},
	{"torch", "uint64", LEAF, TARN_U64},
	{"torch", "bool", LEAF, TARN_BOOL},
	{"torch", "complex64", LEAF, TARN_C64},
	{"torch", "float8_e4m3fn", LEAF, TARN_F8_E4M3},
	{"torch", "float8_e5m2", LEAF, TARN_F8_E5M2},
	{"torch", "float8_e4m3fnuz", LEAF, TARN_F8_E4M3FNUZ},
	{"torch", "float8_e5m2fnuz", LEAF, TARN_F8_E5M2FNUZ},
	{"torch", "float8_e8m0fnu", LEAF, TARN_F8_E8M0},
};

static bool is(struct pickle_name name, const char *text)
{
	return name.size == strlen(text) && !memcmp(name.text, text, name.size);
}

int pickle_global(struct pickle *p, struct pickle_name module,
	struct pickle_name name, int64_t *ret)
{
	char a[FILE_TEXT_MAX], b[FILE_TEXT_MAX];

	(void)p;
	for (size_t i = 0; i < ARRAY_SIZE(globals); i++)
		if (is(module, globals[i].module) &&
			is(name, globals[i].name)) {
			*ret = (int64_t)i;
			return 0;
		}
	return tarn_fail(ENOTSUP,
		"the pickle needs %s.%s, and tarn reads tensors, numbers, "
		"texts and containers alone, and executes nothing; load it "
		"with torch.load, and save its tensors",
		file_clean(module.text, module.size, a),
		file_clean(name.text, name.size, b));
}

/* ---- storages ------------------------------------------------------------ */

/* ("storage", class, key, where, elements) */
int pickle_storage(struct pickle *p, const struct pickle_value *id,
	struct pickle_value **ret)
{
	struct pickle_value *const *at = id->list.at;
	struct pickle_value *v;

	if (id->kind != PICKLE_LIST || id->list.n < 5 ||
		at[0]->kind != PICKLE_TEXT || at[0]->size != 7 ||
		memcmp(at[0]->text, "storage", 7) != 0 ||
		at[1]->kind != PICKLE_GLOBAL ||
		globals[at[1]->number].action != STORAGE ||
		at[2]->kind != PICKLE_TEXT || at[4]->kind != PICKLE_INT ||
		at[4]->number < 0)
		return pickle_damaged(p, "no storage");
	v = pickle_new(p, PICKLE_STORAGE);
	if (!v)
		return pickle_no_memory();
	v->storage = (struct pickle_storage) {.key = at[2]->text,
		.key_size = at[2]->size,
		.dtype = (int)globals[at[1]->number].dtype,
		.numel = (uint64_t)at[4]->number};
	*ret = v;
	return 0;
}

/* ---- tensors ------------------------------------------------------------- */

static bool all_sizes(const struct pickle_value *v)
{
	if (v->kind != PICKLE_LIST)
		return false;
	for (size_t i = 0; i < v->list.n; i++)
		if (v->list.at[i]->kind != PICKLE_INT ||
			v->list.at[i]->number < 0)
			return false;
	return true;
}

static int make_tensor(struct pickle *p, const struct pickle_list *arguments,
	const struct pickle_storage *storage, struct pickle_value **ret)
{
	const struct pickle_list *shape = &arguments->at[2]->list;
	const struct pickle_list *stride = &arguments->at[3]->list;
	struct pickle_value *v = pickle_new(p, PICKLE_TENSOR);
	uint64_t *sizes = arena_array(p->arena, shape->n, sizeof(*sizes));
	int64_t *strides = arena_array(p->arena, shape->n, sizeof(*strides));

	if (!v || !sizes || !strides)
		return pickle_no_memory();
	for (size_t i = 0; i < shape->n; i++) {
		sizes[i] = (uint64_t)shape->at[i]->number;
		strides[i] = stride->at[i]->number;
	}
	v->tensor = (struct pickle_tensor) {.storage = storage,
		.offset = (uint64_t)arguments->at[1]->number,
		.ndim = (int)shape->n,
		.shape = sizes,
		.stride = strides};
	*ret = v;
	return 0;
}

/* v3 has a dtype as its seventh argument, over bytes. */
static int retype(struct pickle *p, const struct pickle_list *arguments,
	const struct pickle_storage **storage)
{
	const struct pickle_value *dtype = arguments->at[6];
	struct pickle_value *v;
	uint64_t bytes;

	if (dtype->kind != PICKLE_GLOBAL ||
		globals[dtype->number].action != LEAF)
		return pickle_damaged(p, "a tensor without a dtype");
	v = pickle_new(p, PICKLE_STORAGE);
	if (!v)
		return pickle_no_memory();
	if (mul_u64((*storage)->numel,
		    (uint64_t)tarn_dtype_bits((*storage)->dtype) / 8, &bytes))
		return pickle_damaged(p, "a storage of too many bytes");
	v->storage = **storage;
	v->storage.dtype = (int)globals[dtype->number].dtype;
	v->storage.numel =
		bytes / ((uint64_t)tarn_dtype_bits(v->storage.dtype) / 8);
	*storage = &v->storage;
	return 0;
}

/* Does its metadata say that its values are not its bytes? */
static bool is_lazy(const struct pickle_list *arguments, size_t at)
{
	const struct pickle_value *bits =
		at < arguments->n ? arguments->at[at] : NULL;

	if (!bits || bits->kind != PICKLE_DICT)
		return false;
	for (size_t i = 1; i < bits->list.n; i += 2)
		if (bits->list.at[i]->kind != PICKLE_BOOL ||
			bits->list.at[i]->number)
			return true;
	return false;
}

static int call_tensor(struct pickle *p, int64_t global,
	const struct pickle_list *arguments, struct pickle_value **ret)
{
	bool v3 = !strcmp(globals[global].name, "_rebuild_tensor_v3");
	const struct pickle_storage *storage;
	int r = 0;

	if (arguments->n < (v3 ? 7 : 4) ||
		arguments->at[0]->kind != PICKLE_STORAGE ||
		arguments->at[1]->kind != PICKLE_INT ||
		arguments->at[1]->number < 0 || !all_sizes(arguments->at[2]) ||
		!all_sizes(arguments->at[3]) ||
		arguments->at[2]->list.n != arguments->at[3]->list.n ||
		arguments->at[2]->list.n > NDIM_MAX)
		return pickle_damaged(p, "a wrong tensor");
	if (is_lazy(arguments, v3 ? 7 : 6))
		return tarn_fail(ENOTSUP,
			"a tensor in it is conjugated or negated only when it "
			"is read, and its bytes are not; save what its "
			"resolve_conj().resolve_neg() returns");
	storage = &arguments->at[0]->storage;
	if (v3)
		r = retype(p, arguments, &storage);
	return r < 0 ? r : make_tensor(p, arguments, storage, ret);
}

/* ---- calls --------------------------------------------------------------- */

/* No PyTorch that writes archives gives it pairs: they are added to it. */
static int call_dict(struct pickle *p, const struct pickle_list *arguments,
	struct pickle_value **ret)
{
	struct pickle_value *v = pickle_new(p, PICKLE_DICT);

	if (arguments->n)
		return pickle_damaged(p, "a dict of arguments");
	if (!v)
		return pickle_no_memory();
	*ret = v;
	return 0;
}

int pickle_call(struct pickle *p, int64_t global,
	const struct pickle_list *arguments, struct pickle_value **ret)
{
	struct pickle_value *first = arguments->n ? arguments->at[0] : NULL;

	switch (globals[global].action) {
	case DICT:
		return call_dict(p, arguments, ret);
	case TENSOR:
		return call_tensor(p, global, arguments, ret);
	case LIST:
	case TEXT:
	case PARAMETER: {
		enum pickle_kind kind =
			globals[global].action == LIST   ? PICKLE_LIST
			: globals[global].action == TEXT ? PICKLE_TEXT
							 : PICKLE_TENSOR;

		if (!first || first->kind != kind)
			return pickle_damaged(p, "a wrong argument");
		*ret = first;
		return 0;
	}
	case LEAF:
	case STORAGE:
		break;
	}
	return pickle_damaged(p, "a call of what is none");
}
