/* SPDX-License-Identifier: MIT */
/*
 * The account of the stand-in for the driver: that it notices what tests rely on
 * it to notice. A case that ends with a fault says so by its exit status, which
 * another process looks at.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "lib/cuda/driver.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/driver_calls.h"
#include "tests/fakecuda/fakecuda.h"

/* ---- faults -------------------------------------------------------------- */

static void frees_too_early(void)
{
	struct driver_memory m;

	driver_enter(0);
	m = driver_memory();
	MUST(fill(m.at, 1, SIZE, NULL));
	driver_memory_free(&m);
	MUST(stream_synchronize(NULL));
	driver_leave();
}

static void unregisters_too_early(void)
{
	struct driver_memory m;
	void *p;

	driver_enter(0);
	m = driver_memory();
	p = driver_pinned();
	MUST(copy(m.at, (uintptr_t)p, SIZE, NULL));
	MUST(host_unregister(p));
	MUST(stream_synchronize(NULL));
	munmap(p, SIZE);
	driver_memory_free(&m);
	driver_leave();
}

static void does_not_wait(void)
{
	struct driver_memory m;

	driver_enter(0);
	m = driver_memory();
	case_set("LATE", "100000000");
	MUST(fill(m.at, 1, SIZE, NULL));
	driver_leave();
}

static void keeps_stream(void)
{
	CUstream s;

	driver_enter(0);
	MUST(stream_create(&s, 0));
	driver_leave();
}

static void uses_destroyed(void)
{
	CUevent e;

	driver_enter(0);
	MUST(event_create(&e, 0));
	MUST(event_destroy(e));
	check(cu->event_query(e) == CUDA_ERROR_INVALID_HANDLE, "it is gone");
	driver_leave();
}

static void in_other_context(void)
{
	CUcontext context, popped;
	struct driver_memory m;
	CUstream s;

	driver_enter(0);
	m = driver_memory();
	MUST(stream_create(&s, 0));
	MUST(context_retain(&context, 1));
	MUST(context_push(context));
	check(cu->fill(m.at, 0, SIZE, s) == CUDA_ERROR_INVALID_HANDLE,
		"the stream is of another context");
	MUST(context_pop(&popped));
	MUST(context_release(1));
	MUST(stream_destroy(s));
	driver_memory_free(&m);
	driver_leave();
}

/* What is queued may be done before the fault: then it takes longer. */
static int noticed_by(const char *name)
{
	int status = 0;
	char text[32];

	for (long late = 2000; late <= 20000000 && status != FAKECUDA_FAULT;
		late *= 10) {
		snprintf(text, sizeof(text), "%ld", late);
		case_set("LATE", text);
		status = case_run(name, -1);
	}
	return status;
}

static void noticed(void)
{
	static const char *const names[] = {"frees_too_early",
		"unregisters_too_early", "does_not_wait", "keeps_stream",
		"uses_destroyed", "in_other_context"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		int status = noticed_by(names[i]);

		check(status == FAKECUDA_FAULT, "%s: %d", names[i], status);
	}
}

#define SURVIVED 7

/* A host that uses the device's address. */
static void trespasses(void)
{
	volatile const char *at;
	struct driver_memory m;

	driver_enter(0);
	m = driver_memory();
	at = (const char *)(uintptr_t)m.at;
	exit(*at == 'x' ? SURVIVED + 1 : SURVIVED);
}

static void faults(void)
{
	int status = case_run("trespasses", -1);

	check(status != SURVIVED && status != SURVIVED + 1 &&
			status != FAKECUDA_FAULT,
		"it dies: %d", status);
}

/* ---- all ----------------------------------------------------------------- */

static const struct case_ cases[] = {
	{"noticed", "what tests rely on it to notice", noticed, {"DEVICES=2"}},
	{"faults", "a host that uses a device's address dies", faults, {NULL}},
	/* Those that others run. */
	{"frees_too_early", NULL, frees_too_early, {NULL}},
	{"unregisters_too_early", NULL, unregisters_too_early, {NULL}},
	{"does_not_wait", NULL, does_not_wait, {NULL}},
	{"keeps_stream", NULL, keeps_stream, {NULL}},
	{"uses_destroyed", NULL, uses_destroyed, {NULL}},
	{"in_other_context", NULL, in_other_context, {NULL}},
	{"trespasses", NULL, trespasses, {NULL}},
};

int main(int argc, char **argv)
{
	return cases_main(argc, argv, cases, (int)ARRAY_SIZE(cases));
}
