/* SPDX-License-Identifier: MIT */
/*
 * DLPack in C, exports: every dtype and layout comes back as it went out, at
 * the same address; read-only memory is called that; an exported tensor keeps
 * its bytes and its lease until its deleter is called, in any thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tarn/dlpack.h>
#include <tarn/tarn.h>
#include <tarn/dlpack_abi.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/tap.h"

static tarn_tensor *import(DLManagedTensorVersioned *managed)
{
	tarn_tensor *t = NULL;

	if (tarn_tensor_from_dlpack(managed, &t) < 0)
		bail("%s", tarn_error_message());
	return t;
}

static tarn_tensor *make(const char *spec)
{
	struct tarn_layout l;
	tarn_tensor *t = NULL;
	int r = tarn_layout_parse(spec, &l);

	if (r >= 0)
		r = tarn_tensor_zeros(l.dtype, l.ndim, l.shape, &t);
	if (r < 0)
		bail("%s: %s", spec, tarn_error_message());
	return t;
}

/* ---- there and back ---------------------------------------------------- */

/* Exports t, imports that, and compares; the tensor that came back, or NULL. */
static tarn_tensor *round_trip(tarn_tensor *t, const char *what)
{
	DLManagedTensorVersioned *managed = NULL;
	tarn_tensor *back;
	const struct tarn_layout *l;

	is_int(0, tarn_tensor_to_dlpack(t, 0, &managed), "%s is exported",
		what);
	if (!managed) {
		diag("%s", tarn_error_message());
		return NULL;
	}
	back = import(managed);
	l = tarn_tensor_layout(back);
	is_int(tarn_tensor_layout(t)->dtype, l->dtype,
		"%s keeps its dtype through DLPack", what);
	is_int(tarn_tensor_layout(t)->ndim, l->ndim,
		"%s keeps its rank through DLPack", what);
	is_mem(tarn_tensor_layout(t)->shape, l->shape, sizeof(l->shape),
		"%s keeps its shape through DLPack", what);
	if (tarn_layout_numel(l) > 0)
		ok(tarn_tensor_data(t) == tarn_tensor_data(back),
			"%s keeps its address through DLPack", what);
	return back;
}

static const struct {
	enum tarn_dtype dtype;
	DLDataType type;
} all[] = {
	{TARN_BOOL, {6, 8, 1}},
	{TARN_F4, {17, 4, 2}},
	{TARN_F6_E2M3, {15, 6, 1}},
	{TARN_F6_E3M2, {16, 6, 1}},
	{TARN_U8, {1, 8, 1}},
	{TARN_I8, {0, 8, 1}},
	{TARN_F8_E5M2, {12, 8, 1}},
	{TARN_F8_E4M3, {10, 8, 1}},
	{TARN_F8_E8M0, {14, 8, 1}},
	{TARN_F8_E4M3FNUZ, {11, 8, 1}},
	{TARN_F8_E5M2FNUZ, {13, 8, 1}},
	{TARN_I16, {0, 16, 1}},
	{TARN_U16, {1, 16, 1}},
	{TARN_F16, {2, 16, 1}},
	{TARN_BF16, {4, 16, 1}},
	{TARN_I32, {0, 32, 1}},
	{TARN_U32, {1, 32, 1}},
	{TARN_F32, {2, 32, 1}},
	{TARN_C64, {5, 64, 1}},
	{TARN_F64, {2, 64, 1}},
	{TARN_I64, {0, 64, 1}},
	{TARN_U64, {1, 64, 1}},
};

static void test_dtypes(void)
{
	is_int(TARN_DTYPE_MAX, sizeof(all) / sizeof(all[0]),
		"the table has every dtype");
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const char *name = tarn_dtype_name(all[i].dtype);
		const int64_t shape[] = {3, 8};
		DLManagedTensorVersioned *managed = NULL;
		tarn_tensor *t = NULL, *back;

		if (tarn_tensor_ones(all[i].dtype, 2, shape, &t) < 0 ||
			tarn_tensor_to_dlpack(t, 0, &managed) < 0)
			bail("%s", tarn_error_message());
		is_mem(&all[i].type, &managed->dl_tensor.dtype,
			sizeof(DLDataType), "%s has its number in DLPack",
			name);
		is_int(all[i].dtype == TARN_F4 ? 4 : 8,
			managed->dl_tensor.shape[1],
			"%s has the size of DLPack's last dimension", name);
		managed->deleter(managed);
		back = round_trip(t, name);
		is_int(1, tarn_tensor_equal(t, back),
			"%s keeps its values through DLPack", name);
		tarn_tensor_unref(back);
		tarn_tensor_unref(t);
	}
}

static void test_layouts(void)
{
	static const struct {
		const char *spec, *expr;
	} views[] = {
		{"F32[3, 4]", "[:, ::-2]"},
		{"F32[3, 4]", ".T.flip(0)"},
		{"F32[3, 1]", ".expand(3, 5)"},
		{"F32[3, 4]", "[1, 2]"},
		{"F32[3, 0, 4]", ""},
		{"F64[1, 1]", ""},
		{"U8[5]", "[3:]"},
		{"U8[1,2,1,2,1,2,1,2,1,2,1,2]", ".transpose(1, 11)"},
		{"F4[4, 8]", "[::-1, 2:6]"},
		{"F6_E2M3[4, 8]", "[::-2, 4:]"},
	};

	for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
		tarn_tensor *whole = make(views[i].spec), *t = NULL, *back;
		char what[80];

		snprintf(what, sizeof(what), "%s%s", views[i].spec,
			views[i].expr);
		if (tarn_tensor_eval(whole, views[i].expr, &t) < 0)
			bail("%s", tarn_error_message());
		back = round_trip(t, what);
		if (back && tarn_layout_numel(tarn_tensor_layout(t)) > 0)
			is_mem(tarn_tensor_layout(t)->stride,
				tarn_tensor_layout(back)->stride,
				sizeof(int64_t) * TARN_NDIM_MAX,
				"%s keeps its strides through DLPack", what);
		tarn_tensor_unref(back);
		tarn_tensor_unref(t);
		tarn_tensor_unref(whole);
	}
}

/* What consumers rely on: nothing to add to the address, no NULL strides. */
static void test_struct(void)
{
	DLManagedTensorVersioned *managed = NULL;
	DLManagedTensor *old = NULL;
	tarn_tensor *t = make("F32[3, 4]"), *v = NULL, *empty = make("F32[0]");

	if (tarn_tensor_eval(t, "[1, 2]", &v) < 0 ||
		tarn_tensor_to_dlpack(v, 0, &managed) < 0)
		bail("%s", tarn_error_message());
	is_int(1, managed->version.major, "the exported tensor has version 1");
	is_int(0, managed->dl_tensor.ndim, "an exported element has rank 0");
	is_int(0, (int64_t)managed->dl_tensor.byte_offset,
		"byte_offset of an exported element is 0");
	ok(managed->dl_tensor.data == (float *)tarn_tensor_data(t) + 6,
		"data of an exported element is its address");
	ok(managed->dl_tensor.shape && managed->dl_tensor.strides,
		"shape and strides of rank 0 are not NULL");
	is_int(kDLCPU, managed->dl_tensor.device.device_type,
		"the device is the CPU");
	is_int(0, (int64_t)managed->flags, "a writable tensor has no flags");
	managed->deleter(managed);
	tarn_tensor_unref(v);

	if (tarn_tensor_to_dlpack(empty, TARN_DLPACK_COPIED, &managed) < 0 ||
		tarn_tensor_to_dlpack_unversioned(t, &old) < 0)
		bail("%s", tarn_error_message());
	ok(managed->dl_tensor.data,
		"an address without elements is not NULL: PyTorch would not "
		"call the deleter");
	is_int(DLPACK_FLAG_BITMASK_IS_COPIED, (int64_t)managed->flags,
		"an exported copy has the flag of a copy");
	managed->deleter(managed);
	is_int(0, (intptr_t)old->dl_tensor.data % 64,
		"memory of tarn's is aligned to 64 bytes");
	is_int(4, old->dl_tensor.strides[0],
		"the old form of DLPack has the strides");
	old->deleter(old);
	is_int(-EINVAL, tarn_tensor_to_dlpack(t, 4, &managed),
		"an unknown export flag is refused");
	tarn_tensor_unref(t);
	tarn_tensor_unref(empty);
}

/* ---- ownership --------------------------------------------------------- */

static void count_release(void *arg)
{
	++*(int *)arg;
}

static tarn_tensor *borrow(float *data, bool writable, int *released)
{
	const int64_t shape[] = {4};
	tarn_storage *s = NULL;
	tarn_tensor *t = NULL;
	struct tarn_layout l;
	int r = tarn_storage_borrow(data, 4 * sizeof(*data),
		writable ? TARN_BORROW_WRITABLE : 0, count_release, released,
		&s);

	if (r >= 0)
		r = tarn_layout_contiguous(TARN_F32, 1, shape, &l);
	if (r >= 0)
		r = tarn_tensor_new(s, 0, &l, &t);
	if (r < 0)
		bail("%s", tarn_error_message());
	tarn_storage_unref(s);
	return t;
}

static void test_export_owns(void)
{
	float data[4] = {1, 2, 3, 4};
	DLManagedTensorVersioned *a = NULL, *b = NULL;
	DLManagedTensor *old = NULL;
	int released = 0;
	tarn_tensor *t = borrow(data, true, &released), *back;

	if (tarn_tensor_to_dlpack(t, 0, &a) < 0 ||
		tarn_tensor_to_dlpack(t, 0, &b) < 0 ||
		tarn_tensor_to_dlpack_unversioned(t, &old) < 0)
		bail("%s", tarn_error_message());
	tarn_tensor_unref(t);
	a->deleter(a);
	old->deleter(old);
	is_int(0, released, "each export holds a reference to the tensor");
	back = import(b);
	tarn_tensor_unref(back);
	is_int(1, released,
		"the last of several exports releases the bytes once");
}

static void test_read_only(void)
{
	/* Pages that nobody can write: the guard of others is themselves. */
	float *data =
		mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	DLManagedTensorVersioned *managed = NULL;
	DLManagedTensor *old = NULL;
	int released = 0;
	tarn_tensor *t = borrow(data, false, &released), *back;

	is_int(-EROFS, tarn_tensor_to_dlpack_unversioned(t, &old),
		"a read-only tensor is not exported in the old form");
	is_int(-ENOTSUP, tarn_tensor_to_dlpack(t, TARN_DLPACK_GUARD, &managed),
		"lent memory cannot be exported with a guard");
	if (tarn_tensor_to_dlpack(t, 0, &managed) < 0)
		bail("%s", tarn_error_message());
	is_int(DLPACK_FLAG_BITMASK_READ_ONLY, (int64_t)managed->flags,
		"the new form has the flag of read-only memory");
	tarn_tensor_unref(t);
	back = import(managed);
	ok(!tarn_storage_writable(tarn_tensor_storage(back)),
		"an imported read-only tensor is read-only");
	tarn_tensor_unref(back);
	is_int(1, released,
		"the bytes of a read-only export are released once");
	munmap(data, 4096);
}

static void test_file(void)
{
	const int64_t shape[] = {4};
	DLManagedTensorVersioned *managed = NULL;
	char path[4200];
	tarn_storage *s = NULL;
	tarn_tensor *t = NULL;
	struct tarn_layout l;
	int fd;

	snprintf(path, sizeof(path), "%s/file", test_tmpdir());
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, 16) < 0 ||
		tarn_storage_from_fd(fd, 0, 16, &s) < 0 ||
		tarn_layout_contiguous(TARN_F32, 1, shape, &l) < 0 ||
		tarn_tensor_new(s, 0, &l, &t) < 0)
		bail("%s: %s", path, tarn_error_message());
	for (unsigned flags = 0; flags <= TARN_DLPACK_GUARD; flags++) {
		is_int(-ENOTSUP, tarn_tensor_to_dlpack(t, flags, &managed),
			"a tensor in a file is not exported with flags %u",
			flags);
		has_str("address", tarn_error_message(),
			"the error with flags %u says that it has no address",
			flags);
	}
	close(fd);
	unlink(path);
	tarn_tensor_unref(t);
	tarn_storage_unref(s);
}

#define THREADS 4
#define ROUNDS 2000

static void *export_and_import(void *arg)
{
	tarn_tensor *t = arg;

	for (int i = 0; i < ROUNDS; i++) {
		DLManagedTensorVersioned *managed = NULL;
		tarn_tensor *back = NULL;

		if (tarn_tensor_to_dlpack(t, 0, &managed) < 0 ||
			tarn_tensor_from_dlpack(managed, &back) < 0)
			return "failed";
		tarn_tensor_unref(back);
	}
	tarn_tensor_unref(t);
	return NULL;
}

static void test_threads(void)
{
	pthread_t threads[THREADS];
	float data[4] = {0};
	int failed = 0, released = 0;
	tarn_tensor *t = borrow(data, true, &released);

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, export_and_import,
			    tarn_tensor_ref(t)) != 0)
			bail("no thread");
	tarn_tensor_unref(t);
	for (int i = 0; i < THREADS; i++) {
		void *seen;

		pthread_join(threads[i], &seen);
		failed += seen != NULL;
	}
	is_int(0, failed, "%d threads export and import at once", THREADS);
	is_int(1, released,
		"the bytes are released once, in one of the threads");
}

/* ---- a shared tensor --------------------------------------------------- */

/* "a" in a daemon, removed by name: what is exported of it. */
static DLManagedTensorVersioned *export_shared(
	const char *socket, unsigned flags)
{
	DLManagedTensorVersioned *managed = NULL;
	tarn_tensor *t = NULL, *shared = NULL;
	tarn_store *store = NULL;
	const int64_t shape[] = {100000};
	int r = tarn_tensor_full(TARN_F32, 1, shape, 7, &t);

	if (r >= 0)
		r = tarn_store_open(socket, NULL, &store);
	if (r >= 0)
		r = tarn_store_publish_one(store, "a", t, NULL, NULL);
	if (r >= 0)
		r = tarn_store_lookup(store, "a", &shared);
	if (r >= 0)
		r = tarn_tensor_to_dlpack(shared, flags, &managed);
	if (r >= 0 && flags == 0)
		ok(managed->dl_tensor.data == tarn_tensor_data(shared),
			"a shared tensor is exported at its own address");
	else if (r >= 0)
		ok(managed->dl_tensor.data != tarn_tensor_data(shared),
			"a guarded tensor is exported at another address");
	if (r >= 0)
		r = tarn_store_remove(store, "a");
	if (r < 0)
		bail("%s", tarn_error_message());
	tarn_tensor_unref(t);
	tarn_tensor_unref(shared);
	tarn_store_unref(store);
	return managed;
}

static void test_shared(void)
{
	DLManagedTensorVersioned *plain, *guarded;
	struct daemon server;
	int wrong = 0;
	float *data;

	daemon_start(&server, "sock", NULL);
	plain = export_shared(server.socket, 0);
	guarded = export_shared(server.socket, TARN_DLPACK_GUARD);
	is_int(DLPACK_FLAG_BITMASK_READ_ONLY, (int64_t)plain->flags,
		"an exported shared tensor is read-only");
	is_int(DLPACK_FLAG_BITMASK_READ_ONLY, (int64_t)guarded->flags,
		"an exported guarded tensor is read-only, too");
	data = plain->dl_tensor.data;
	for (int i = 0; i < 100000; i++)
		wrong += data[i] != 7;
	is_int(0, wrong,
		"an exported tensor keeps its bytes after the store is closed");
	data = guarded->dl_tensor.data;
	data[0] = 8;
	is_int(8 + 7, (int64_t)(data[0] + data[99999]),
		"a write to guarded memory raises no signal");
	plain->deleter(plain);
	guarded->deleter(guarded);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
}

int main(void)
{
	test_dtypes();
	test_layouts();
	test_struct();
	test_export_owns();
	test_read_only();
	test_file();
	test_threads();
	test_shared();
	rmdir(test_tmpdir());
	return done(267);
}
