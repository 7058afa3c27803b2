/* SPDX-License-Identifier: MIT */
/* The functions by their versions' names, which the header has for them. */
#include "tests/gpu/real.h"

#include <dlfcn.h>
#include <stddef.h>

#include "base/checked.h"

struct real real;

#define TEXT_(s) #s
#define TEXT(s) TEXT_(s)

static const struct {
	const char *name;
	size_t at;
} functions[] = {
#define REAL_ROW(fn) {TEXT(fn), offsetof(struct real, p_##fn)},
	REAL_FUNCTIONS(REAL_ROW)
#undef REAL_ROW
};

int real_load(const char **ret_why)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	CUresult e;
	int n = 0;

	*ret_why = "no libcuda.so.1";
	if (!library)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		*(void **)((char *)&real + functions[i].at) =
			dlsym(library, functions[i].name);
	e = REAL(cuInit, 0);
	if (!e)
		e = REAL(cuDeviceGetCount, &n);
	*ret_why = e ? real_result(e) : "the driver shows none";
	return e ? 0 : n;
}

const char *real_result(CUresult e)
{
	const char *name = NULL;

	if (e == CUDA_SUCCESS)
		return "ok";
	if (e == CUDA_ERROR_NOT_FOUND)
		return "no such function";
	if (real.p_cuGetErrorName)
		real.p_cuGetErrorName(e, &name);
	return name ? name : "an unknown error";
}
