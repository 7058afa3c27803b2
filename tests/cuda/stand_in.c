/* SPDX-License-Identifier: MIT */
/*
 * The stand-in for the driver itself: that work is late and in order, and that
 * memory is shared between processes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/cuda/driver.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/driver_calls.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/kit/tap.h"

/* ---- work ---------------------------------------------------------------- */

/* The old bytes are there as long as the work is not done. Where the machine was
 * too slow to see it so, *ret_seen is false. */
static void look_early(const struct driver_memory *m, unsigned char *p,
	CUstream s, bool *ret_seen)
{
	CUevent filled, copied;
	bool old;

	MUST(event_create(&filled, CU_EVENT_DISABLE_TIMING));
	MUST(event_create(&copied, CU_EVENT_DISABLE_TIMING));
	check(cu->event_query(copied) == CUDA_SUCCESS, "it was never recorded");
	MUST(fill(m->at, 7, SIZE, s));
	MUST(event_record(filled, s));
	MUST(copy((uintptr_t)p, m->at, SIZE, s));
	MUST(event_record(copied, s));
	old = driver_is_all(p, 0);
	*ret_seen = cu->event_query(filled) == CUDA_ERROR_NOT_READY;
	check(old || !*ret_seen, "the old bytes are there before it is done");
	MUST(event_synchronize(copied));
	check(driver_is_all(p, 7), "the new ones are there after");
	check(cu->event_query(copied) == CUDA_SUCCESS,
		"the event is ready after it was awaited");
	MUST(event_destroy(filled));
	MUST(event_destroy(copied));
}

static void work_is_late(void)
{
	bool seen = false;
	unsigned char *p;
	struct driver_memory m;
	CUstream s;
	char late[16];

	driver_enter(0);
	m = driver_memory();
	p = driver_pinned();
	MUST(stream_create(&s, CU_STREAM_NON_BLOCKING));
	for (unsigned us = 200; !seen && us <= 10000000; us *= 10) {
		snprintf(late, sizeof(late), "%u", us);
		case_set("LATE", late);
		memset(p, 0, SIZE);
		look_early(&m, p, s, &seen);
	}
	check(seen, "work that takes long is not done at once");
	MUST(stream_destroy(s));
	driver_unpin(p);
	driver_memory_free(&m);
	driver_leave();
}

/* Stream b does not go past the event of stream a, which has more to do. */
static void streams_wait(void)
{
	struct driver_memory m;
	CUstream a, b;
	unsigned char *p;
	CUevent e;

	driver_enter(0);
	m = driver_memory();
	p = driver_pinned();
	MUST(stream_create(&a, CU_STREAM_NON_BLOCKING));
	MUST(stream_create(&b, CU_STREAM_NON_BLOCKING));
	MUST(event_create(&e, 0));
	for (int i = 1; i <= 20; i++)
		MUST(fill(m.at, (unsigned char)i, SIZE, a));
	MUST(event_record(e, a));
	MUST(stream_wait_event(b, e, 0));
	MUST(copy((uintptr_t)p, m.at, SIZE, b));
	MUST(stream_synchronize(b));
	check(driver_is_all(p, 20), "seen: %d", p[0]);
	MUST(event_destroy(e));
	MUST(stream_destroy(a));
	MUST(stream_destroy(b));
	driver_unpin(p);
	driver_memory_free(&m);
	driver_leave();
}

static void pageable(void)
{
	unsigned char *p = calloc(1, SIZE);
	struct driver_memory m;
	CUstream s;

	driver_enter(0);
	m = driver_memory();
	MUST(stream_create(&s, CU_STREAM_NON_BLOCKING));
	memset(p, 3, SIZE);
	MUST(copy(m.at, (uintptr_t)p, SIZE, s));
	memset(p, 4, SIZE); /* the bytes were staged */
	MUST(copy((uintptr_t)p, m.at, SIZE, s));
	check(driver_is_all(p, 3), "it waited: %d", p[0]);
	MUST(stream_destroy(s));
	driver_memory_free(&m);
	driver_leave();
	free(p);
}

/* Boxes of 3 x 4 x 5 bytes. */
static void boxes(void)
{
	unsigned char *p, wanted;
	struct driver_memory m;
	CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcPitch = 10,
		.srcHeight = 6,
		.srcXInBytes = 1,
		.srcY = 1,
		.srcZ = 1,
		.dstPitch = 5,
		.dstHeight = 4,
		.WidthInBytes = 5,
		.Height = 4,
		.Depth = 3};
	bool same = true;

	driver_enter(0);
	m = driver_memory();
	p = driver_pinned();
	for (int i = 0; i < 1000; i++)
		p[i] = (unsigned char)i;
	box.srcDevice = (uintptr_t)p;
	box.dstDevice = m.at;
	MUST(copy_3d(&box, NULL));
	MUST(copy((uintptr_t)p + 1000, m.at, 60, NULL));
	MUST(stream_synchronize(NULL));
	for (int i = 0; i < 60; i++) {
		wanted = (unsigned char)((i / 20 + 1) * 60 +
					 (i / 5 % 4 + 1) * 10 + i % 5 + 1);
		same = same && p[1000 + i] == wanted;
	}
	check(same, "rows and slices are where they should be");
	box.srcPitch = 4;
	check(cu->copy_3d(&box, NULL) == CUDA_ERROR_INVALID_VALUE,
		"a pitch below the width");
	driver_unpin(p);
	driver_memory_free(&m);
	driver_leave();
}

static void kernels(void)
{
	struct fakecuda_increment params = {.size = 100};
	void *list[] = {&params};
	unsigned char *p;
	struct driver_memory m;
	CUmodule module;
	CUfunction f;

	driver_enter(0);
	m = driver_memory();
	p = driver_pinned();
	check(cu->module_load(&module, "no image") == CUDA_ERROR_INVALID_IMAGE,
		"what is no image");
	MUST(module_load(&module, ".version 7.0"));
	check(cu->module_function(&f, module, "none") == CUDA_ERROR_NOT_FOUND,
		"there is no such kernel");
	MUST(module_function(&f, module, "fakecuda_increment"));
	MUST(fill(m.at, 5, SIZE, NULL));
	params.at = m.at;
	MUST(launch(f, 4, 1, 1, 32, 1, 1, 0, NULL, list, NULL));
	params.at = 1; /* it was copied */
	MUST(copy((uintptr_t)p, m.at, SIZE, NULL));
	MUST(stream_synchronize(NULL));
	check(p[0] == 6 && p[99] == 6 && p[100] == 5, "seen: %d %d %d", p[0],
		p[99], p[100]);
	MUST(module_unload(module));
	driver_unpin(p);
	driver_memory_free(&m);
	driver_leave();
}

/* ---- several devices ----------------------------------------------------- */

static void peers(void)
{
	CUcontext first, second, popped;
	struct driver_memory m[2];
	unsigned char *p;
	CUstream s;

	driver_enter(0);
	m[0] = driver_memory();
	p = driver_pinned();
	MUST(context_retain(&second, 1));
	MUST(context_pop(&first));
	MUST(context_push(second));
	device = 1;
	m[1] = driver_memory();
	MUST(stream_create(&s, CU_STREAM_NON_BLOCKING));
	MUST(fill(m[1].at, 8, SIZE, s));
	check(cu->copy_peer(m[0].at, second, m[1].at, first, SIZE, s) ==
			CUDA_ERROR_INVALID_VALUE,
		"the contexts are not those of the memory");
	MUST(copy_peer(m[0].at, first, m[1].at, second, SIZE, s));
	MUST(copy((uintptr_t)p, m[0].at, SIZE, s));
	MUST(stream_synchronize(s));
	check(driver_is_all(p, 8), "seen: %d", p[0]);
	MUST(stream_destroy(s));
	driver_memory_free(&m[1]);
	MUST(context_pop(&popped));
	MUST(context_release(1));
	MUST(context_push(first));
	device = 0;
	driver_unpin(p);
	driver_memory_free(&m[0]);
	driver_leave();
}

/* ---- sharing ------------------------------------------------------------- */

/* The second process: this program anew, with the descriptor as number 3. */
static void importer(void)
{
	struct driver_memory m;

	driver_enter(0);
	MUST(memory_import(&m.handle, (void *)3,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	driver_memory_map(&m);
	MUST(fill(m.at, 9, SIZE, NULL));
	MUST(stream_synchronize(NULL));
	driver_memory_free(&m);
	driver_leave();
}

static void shared(void)
{
	CUmemGenericAllocationHandle none;
	unsigned char *p;
	struct driver_memory m;
	int fd, status;

	driver_enter(0);
	m = driver_memory();
	p = driver_pinned();
	check(cu->memory_import(&none, (void *)0,
		      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) ==
			CUDA_ERROR_INVALID_VALUE,
		"a descriptor of something else");
	MUST(memory_export(
		&fd, m.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	status = case_run("importer", fd);
	check(status == 0, "the other process: %d", status);
	close(fd);
	MUST(copy((uintptr_t)p, m.at, SIZE, NULL));
	MUST(stream_synchronize(NULL));
	check(driver_is_all(p, 9), "seen: %d", p[0]);
	driver_unpin(p);
	driver_memory_free(&m);
	driver_leave();
}

static void exhausted(void)
{
	CUmemGenericAllocationHandle a, b;
	size_t free_, total;

	driver_enter(0);
	MUST(memory_create(&a, SIZE, driver_memory_prop(), 0));
	MUST(memory_info(&free_, &total));
	check(free_ == SIZE && total == 2 * SIZE, "%zu of %zu", free_, total);
	check(cu->memory_create(&b, 2 * SIZE, driver_memory_prop(), 0) ==
			CUDA_ERROR_OUT_OF_MEMORY,
		"there is not so much");
	check(cu->memory_create(&b, SIZE / 2, driver_memory_prop(), 0) ==
			CUDA_ERROR_INVALID_VALUE,
		"half a unit");
	MUST(memory_create(&b, SIZE, driver_memory_prop(), 0));
	MUST(memory_release(a));
	MUST(memory_release(b));
	driver_leave();
}

static void attributes(void)
{
	CUcontext context, own;
	unsigned type;
	struct driver_memory m;
	int index;
	void *p;

	driver_enter(1);
	m = driver_memory();
	p = driver_pinned();
	MUST(pointer_attribute(
		&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, m.at + 5));
	check(type == CU_MEMORYTYPE_DEVICE, "memory of a device: %u", type);
	MUST(pointer_attribute(
		&index, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, m.at));
	check(index == 1, "device %d", index);
	MUST(context_pop(&own));
	MUST(pointer_attribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, m.at));
	check(context == own, "its context");
	MUST(context_push(own));
	MUST(pointer_attribute(
		&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)p));
	check(type == CU_MEMORYTYPE_HOST, "registered memory: %u", type);
	check(cu->pointer_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		      (uintptr_t)&type) == CUDA_ERROR_INVALID_VALUE,
		"other memory");
	driver_unpin(p);
	driver_memory_free(&m);
	driver_leave();
}

/* ---- settings ------------------------------------------------------------ */

static void fails_after(void)
{
	CUstream s[2], none;

	driver_enter(0);
	MUST(stream_create(&s[0], 0));
	MUST(stream_create(&s[1], 0));
	check(cu->stream_create(&none, 0) == CUDA_ERROR_OUT_OF_MEMORY,
		"the third fails");
	MUST(stream_destroy(s[0]));
	MUST(stream_destroy(s[1]));
	driver_leave();
}

static void work_fails(void)
{
	struct driver_memory m;
	CUresult e;

	driver_enter(0);
	m = driver_memory();
	MUST(fill(m.at, 1, SIZE, NULL));
	e = cu->stream_synchronize(NULL);
	check(e == CUDA_ERROR_ILLEGAL_ADDRESS, "the work fails: %d", e);
	e = cu->fill(m.at, 1, SIZE, NULL);
	check(e == CUDA_ERROR_ILLEGAL_ADDRESS, "and all that follows: %d", e);
	driver_leave();
}

/* ---- all ----------------------------------------------------------------- */

static const struct case_ cases[] = {
	{"work_is_late", "work is done after the call that queues it",
		work_is_late, {"LATE=3000"}},
	{"streams_wait", "a stream waits for another's event", streams_wait,
		{NULL}},
	{"pageable", "pageable memory is staged, or waited for", pageable,
		{NULL}},
	{"boxes", "copies in three dimensions", boxes, {NULL}},
	{"kernels", "kernels run over memory of a device", kernels, {NULL}},
	{"peers", "memory of one device is copied to another", peers,
		{"DEVICES=2"}},
	{"shared", "two processes share an allocation", shared, {NULL}},
	{"exhausted", "a device has so much memory", exhausted,
		{"MEMORY=4194304"}},
	{"attributes", "what an address is", attributes, {"DEVICES=2"}},
	{"fails_after", "a function fails from the third call on", fails_after,
		{"STREAM_CREATE=2", "STREAM_CREATE_AFTER=2"}},
	{"work_fails", "work that fails ends its context", work_fails,
		{"WORK=700"}},
	/* Those that others run. */
	{"importer", NULL, importer, {NULL}},
};

int main(int argc, char **argv)
{
	return cases_main(argc, argv, cases, (int)ARRAY_SIZE(cases));
}
