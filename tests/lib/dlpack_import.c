/* SPDX-License-Identifier: MIT */
/*
 * DLPack in C, imports: each number of a struct that other code made is checked
 * before it is used; its deleter is called once, when the last tensor over its
 * memory goes, and never by a call that fails.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include <tarn/dlpack_abi.h>
#include <tarn/tarn.h>

#include "tests/kit/tap.h"

/* What another library exports: 64 numbers of it, in both forms. */
struct foreign {
	DLManagedTensorVersioned versioned;
	DLManagedTensor unversioned;
	int64_t shape[TARN_NDIM_MAX + 1];
	int64_t strides[TARN_NDIM_MAX + 1];
	float data[64];
	atomic_int deleted;
};

static void delete_versioned(DLManagedTensorVersioned *self)
{
	struct foreign *f = self->manager_ctx;

	f->deleted++;
}

static void delete_unversioned(DLManagedTensor *self)
{
	struct foreign *f = self->manager_ctx;

	f->deleted++;
}

/* F32[2, 3, 4] in C order. */
static DLTensor *foreign_init(struct foreign *f)
{
	static const int64_t shape[] = {2, 3, 4}, strides[] = {12, 4, 1};

	memset(f, 0, sizeof(*f));
	memcpy(f->shape, shape, sizeof(shape));
	memcpy(f->strides, strides, sizeof(strides));
	for (int i = 0; i < 64; i++)
		f->data[i] = (float)i;
	f->versioned = (DLManagedTensorVersioned) {
		.version = {1, 0},
		.manager_ctx = f,
		.deleter = delete_versioned,
		.dl_tensor =
			{
				.data = f->data,
				.device = {kDLCPU, 0},
				.ndim = 3,
				.dtype = {kDLFloat, 32, 1},
				.shape = f->shape,
				.strides = f->strides,
			},
	};
	f->unversioned = (DLManagedTensor) {
		.dl_tensor = f->versioned.dl_tensor,
		.manager_ctx = f,
		.deleter = delete_unversioned,
	};
	return &f->versioned.dl_tensor;
}

static tarn_tensor *import(DLManagedTensorVersioned *managed)
{
	tarn_tensor *t = NULL;

	if (tarn_tensor_from_dlpack(managed, &t) < 0)
		bail("%s", tarn_error_message());
	return t;
}

static double element(const tarn_tensor *t, const int64_t *index)
{
	double d = -1;

	if (tarn_tensor_get_f64(t, index, &d) < 0)
		diag("%s", tarn_error_message());
	return d;
}

/* ---- what is imported ------------------------------------------------- */

static void test_import(void)
{
	const int64_t at[] = {1, 2, 3}, corner[] = {0, 0, 0};
	tarn_tensor *t = NULL, *v = NULL;
	struct foreign f;
	DLTensor *dl = foreign_init(&f);

	dl->byte_offset = 40;
	t = import(&f.versioned);
	is_int(TARN_STORAGE_BORROWED, tarn_storage_kind(tarn_tensor_storage(t)),
		"an imported tensor's storage is borrowed");
	is_int(33, (int64_t)element(t, at),
		"byte_offset is added to the data's address");
	is_int(0, tarn_tensor_set_f64(t, corner, 99),
		"an element of an imported tensor is written");
	is_int(99, (int64_t)f.data[10],
		"the other library sees the element that was written");
	if (tarn_tensor_eval(t, "[1]", &v) < 0)
		bail("%s", tarn_error_message());
	tarn_tensor_unref(t);
	is_int(0, f.deleted, "a view of an imported tensor keeps the memory");
	tarn_tensor_unref(v);
	is_int(1, f.deleted, "the last tensor calls the deleter once");

	dl = foreign_init(&f);
	dl->strides = NULL;
	t = import(&f.versioned);
	is_int(23, (int64_t)element(t, at),
		"strides that are NULL mean C order");
	tarn_tensor_unref(t);

	dl = foreign_init(&f);
	dl->data = f.data + 23;
	f.strides[0] = -12;
	f.strides[1] = -4;
	f.strides[2] = -1;
	f.versioned.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
	f.versioned.version.minor = 7;
	t = import(&f.versioned);
	is_int(0, (int64_t)element(t, at),
		"negative strides reach elements before data");
	is_int(23, (int64_t)element(t, corner),
		"the first element with negative strides is at data");
	is_int(96, (int64_t)tarn_storage_size(tarn_tensor_storage(t)),
		"the storage spans the elements that the strides reach");
	is_int(-EROFS, tarn_tensor_set_f64(t, corner, 1),
		"memory that the other library calls read-only is read-only");
	tarn_tensor_unref(t);
	is_int(1, f.deleted, "the deleter of read-only memory is called");
}

static void test_import_forms(void)
{
	const int64_t at[] = {1, 2, 3};
	tarn_tensor *t = NULL;
	struct foreign f;
	DLTensor *dl = foreign_init(&f);

	is_int(0, tarn_tensor_from_dlpack_unversioned(&f.unversioned, &t),
		"the old form is imported");
	is_int(23, (int64_t)element(t, at),
		"a tensor in the old form has its elements");
	is_int(0, tarn_tensor_set_f64(t, at, 5),
		"a tensor in the old form is writable");
	tarn_tensor_unref(t);
	is_int(1, f.deleted, "the deleter of the old form is called once");

	f.versioned.deleter = NULL;
	f.unversioned.deleter = NULL;
	t = tarn_tensor_unref(import(&f.versioned));
	if (tarn_tensor_from_dlpack_unversioned(&f.unversioned, &t) < 0)
		bail("%s", tarn_error_message());
	tarn_tensor_unref(t);
	is_int(1, f.deleted, "a tensor without a deleter is imported");

	for (int type = kDLCUDAHost; type <= kDLCUDAManaged; type += 10) {
		dl = foreign_init(&f);
		dl->device.device_type = type;
		t = import(&f.versioned);
		is_int(23, (int64_t)element(t, at),
			"memory of CUDA's that the CPU reads is imported, "
			"type %d",
			type);
		tarn_tensor_unref(t);
	}

	dl = foreign_init(&f);
	dl->data = (char *)f.data + 1;
	dl->byte_offset = 3;
	t = import(&f.versioned);
	is_int(24, (int64_t)element(t, at), "data may have any alignment");
	tarn_tensor_unref(t);

	dl = foreign_init(&f);
	dl->data = NULL;
	dl->byte_offset = 8;
	f.shape[1] = 0;
	t = import(&f.versioned);
	is_int(0, tarn_layout_numel(tarn_tensor_layout(t)),
		"a tensor without elements needs no address");
	tarn_tensor_unref(t);

	dl = foreign_init(&f);
	dl->ndim = 0;
	dl->shape = dl->strides = NULL;
	t = import(&f.versioned);
	is_int(0, (int64_t)element(t, NULL),
		"a tensor of rank 0 needs no shape");
	tarn_tensor_unref(t);
}

static void test_import_packed(void)
{
	/* 1 and 2 in E2M1, the first in the low bits. */
	unsigned char bytes[] = {0x42, 0x42, 0x42, 0x42, 0x42, 0x42};
	const int64_t at[] = {1, 3};
	tarn_tensor *t;
	struct foreign f;

	for (int lanes = 1; lanes <= 2; lanes++) {
		DLTensor *dl = foreign_init(&f);

		*dl = (DLTensor) {.data = bytes,
			.device = {kDLCPU, 0},
			.ndim = 2,
			.dtype = {kDLFloat4_e2m1fn, 4, (uint16_t)lanes},
			.shape = f.shape,
			.strides = f.strides};
		f.shape[0] = 3;
		f.shape[1] = f.strides[0] = 4 / lanes;
		f.strides[1] = 1;
		t = import(&f.versioned);
		is_int(TARN_F4, tarn_tensor_layout(t)->dtype,
			"a tensor of %d lanes of 4 bits is imported as F4",
			lanes);
		is_int(4, tarn_tensor_layout(t)->shape[1],
			"a row of %d lanes has 4 elements", lanes);
		is_int(6, (int64_t)tarn_storage_size(tarn_tensor_storage(t)),
			"a tensor of %d lanes has 6 bytes", lanes);
		is_int(2, (int64_t)element(t, at),
			"an element of %d lanes is read", lanes);
		tarn_tensor_unref(t);
	}
}

/* ---- what is refused --------------------------------------------------- */

static void no_shape(DLTensor *dl)
{
	dl->shape = NULL;
}

static void no_data(DLTensor *dl)
{
	dl->data = NULL;
	dl->byte_offset = 64;
}

static void rank_13(DLTensor *dl)
{
	dl->ndim = 13;
	for (int i = 0; i < 13; i++)
		dl->shape[i] = dl->strides[i] = 1;
}

static void rank_minus_1(DLTensor *dl)
{
	dl->ndim = -1;
}

static void rank_minimal(DLTensor *dl)
{
	dl->ndim = INT32_MIN;
}

static void size_negative(DLTensor *dl)
{
	dl->shape[1] = -3;
}

static void sizes_overflow(DLTensor *dl)
{
	dl->shape[0] = dl->shape[1] = INT64_MAX;
	dl->strides = NULL;
}

static void sizes_wrap_to_0(DLTensor *dl)
{
	dl->shape[0] = dl->shape[1] = dl->shape[2] = (int64_t)1 << 32;
	dl->strides[0] = dl->strides[1] = dl->strides[2] = 0;
}

static void stride_overflows(DLTensor *dl)
{
	dl->strides[0] = INT64_MAX / 2;
}

static void stride_minimal(DLTensor *dl)
{
	dl->strides[0] = INT64_MIN;
}

static void strides_cancel(DLTensor *dl)
{
	dl->strides[0] = INT64_MAX / 64;
	dl->strides[1] = -(INT64_MAX / 64);
}

static void offset_wraps(DLTensor *dl)
{
	dl->byte_offset = UINT64_MAX;
}

static void offset_at_end(DLTensor *dl)
{
	dl->byte_offset = UINT64_MAX - (uintptr_t)dl->data - 8;
}

static void stride_before_0(DLTensor *dl)
{
	dl->strides[0] = -((int64_t)1 << 57);
}

static void type_opaque(DLTensor *dl)
{
	dl->dtype.code = kDLOpaqueHandle;
}

static void type_f128(DLTensor *dl)
{
	dl->dtype.bits = 128;
}

static void type_bits_0(DLTensor *dl)
{
	dl->dtype = (DLDataType) {0, 0, 1};
}

static void type_lanes_0(DLTensor *dl)
{
	dl->dtype.lanes = 0;
}

static void type_lanes_4(DLTensor *dl)
{
	dl->dtype.lanes = 4;
}

static void type_f6_lanes_2(DLTensor *dl)
{
	dl->dtype = (DLDataType) {kDLFloat6_e2m3fn, 6, 2};
}

static void type_f8_e4m3(DLTensor *dl)
{
	dl->dtype = (DLDataType) {kDLFloat8_e4m3, 8, 1};
}

static void type_bool_1(DLTensor *dl)
{
	dl->dtype = (DLDataType) {kDLBool, 1, 1};
}

static void type_code_255(DLTensor *dl)
{
	dl->dtype.code = 255;
}

static void f4_split(DLTensor *dl)
{
	dl->dtype = (DLDataType) {kDLFloat4_e2m1fn, 4, 1};
	dl->strides[1] = 5;
}

static void f4_pairs_apart(DLTensor *dl)
{
	dl->dtype = (DLDataType) {kDLFloat4_e2m1fn, 4, 2};
	dl->strides[2] = 2;
}

static void device_rocm_host(DLTensor *dl)
{
	dl->device.device_type = kDLROCMHost;
}

static void device_5(DLTensor *dl)
{
	int type = 5;

	memcpy(&dl->device.device_type, &type, sizeof(type));
}

static void device_minus_1(DLTensor *dl)
{
	memset(&dl->device.device_type, 0xff, sizeof(dl->device.device_type));
}

static const struct {
	void (*spoil)(DLTensor *dl);
	const char *what;
	int wanted;
	const char *said;
} cases[] = {
	{no_shape, "no shape", -EINVAL, "no shape"},
	{no_data, "no address", -EINVAL, "without an address"},
	{rank_13, "rank 13", -EINVAL, "would have 13"},
	{rank_minus_1, "rank -1", -EINVAL, "would have -1"},
	{rank_minimal, "the least rank", -EINVAL, "-2147483648"},
	{size_negative, "a negative size", -EINVAL, "negative"},
	{sizes_overflow, "sizes whose product overflows", -EOVERFLOW, "2^63"},
	{sizes_wrap_to_0, "sizes whose product wraps to 0", -EOVERFLOW, "2^63"},
	{stride_overflows, "a stride that overflows", -EOVERFLOW, "2^63"},
	{stride_minimal, "the least stride", -EOVERFLOW, "2^63"},
	{strides_cancel, "large strides that cancel out", -EOVERFLOW, "2^63"},
	{offset_wraps, "the largest offset", -EOVERFLOW, "address space"},
	{offset_at_end, "an end past the address space", -EOVERFLOW,
		"address space"},
	{stride_before_0, "a beginning before address 0", -EOVERFLOW,
		"address space"},
	{type_opaque, "an opaque handle", -EINVAL, "type 3"},
	{type_f128, "a float of 128 bits", -EINVAL, "128 bits"},
	{type_bits_0, "an integer of 0 bits", -EINVAL, "0 bits"},
	{type_lanes_0, "0 lanes", -EINVAL, "0 lanes"},
	{type_lanes_4, "4 lanes", -EINVAL, "4 lanes"},
	{type_f6_lanes_2, "2 lanes of 6 bits", -EINVAL, "2 lanes"},
	{type_f8_e4m3, "an F8 that tarn does not have", -EINVAL, "type 8"},
	{type_bool_1, "a bool of 1 bit", -EINVAL, "1 bits"},
	{type_code_255, "type 255", -EINVAL, "type 255"},
	{f4_split, "a stride inside a byte", -ENOTSUP, "stride"},
	{f4_pairs_apart, "pairs that are not adjacent", -EINVAL, "adjacent"},
	{device_rocm_host, "host memory of ROCm", -ENOTSUP, "ROCm"},
	{device_5, "a device without a name", -ENOTSUP, "unknown"},
	{device_minus_1, "device -1", -ENOTSUP, "unknown"},
};

static void test_refused(void)
{
	tarn_tensor *const none = (void *)&cases;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tarn_tensor *t = none;
		struct foreign f;

		cases[i].spoil(foreign_init(&f));
		is_int(cases[i].wanted,
			tarn_tensor_from_dlpack(&f.versioned, &t),
			"%s is refused", cases[i].what);
		has_str(cases[i].said, tarn_error_message(),
			"the sentence says what is wrong with %s",
			cases[i].what);
		f.unversioned.dl_tensor = f.versioned.dl_tensor;
		is_int(cases[i].wanted,
			tarn_tensor_from_dlpack_unversioned(&f.unversioned, &t),
			"%s is refused in the old form", cases[i].what);
		ok(f.deleted == 0 && t == none,
			"%s: no deleter is called and no tensor is made",
			cases[i].what);
	}
}

static void test_versions(void)
{
	tarn_tensor *t = NULL;
	struct foreign f;
	DLTensor *dl = foreign_init(&f);

	f.versioned.version.major = 2;
	/* Nothing behind the flags may be looked at. */
	memset(dl, 0xff, sizeof(*dl));
	is_int(-ENOTSUP, tarn_tensor_from_dlpack(&f.versioned, &t),
		"a tensor of DLPack version 2 is refused");
	has_str("2.0", tarn_error_message(), "the sentence has the version");
	f.versioned.version.major = 0;
	is_int(-ENOTSUP, tarn_tensor_from_dlpack(&f.versioned, &t),
		"a tensor of DLPack version 0 is refused");

	dl = foreign_init(&f);
	dl->dtype = (DLDataType) {kDLFloat6_e3m2fn, 6, 1};
	f.versioned.flags = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
	is_int(-ENOTSUP, tarn_tensor_from_dlpack(&f.versioned, &t),
		"6-bit elements that are padded to bytes are refused");
	has_str("padded", tarn_error_message(),
		"the sentence says that the elements are padded");
	is_int(0, f.deleted, "a refused import calls no deleter");
	dl = foreign_init(&f);
	f.versioned.flags =
		DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED | 1u << 9;
	tarn_tensor_unref(import(&f.versioned));
	is_int(1, f.deleted, "an import ignores flags that do not concern F32");
}

int main(void)
{
	test_import();
	test_import_forms();
	test_import_packed();
	test_refused();
	test_versions();
	return done(149);
}
