// SPDX-License-Identifier: MIT
#include "ops/blas_load.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config.h"

static struct blas_functions found;
static const struct blas_functions *loaded;
static char error[512];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* pip's OpenBLAS has a word of its own before each name. */
static void *symbol(void *library, const char *name)
{
	char other[64];
	void *at = dlsym(library, name);

	snprintf(other, sizeof(other), "scipy_%s", name);
	return at ?: dlsym(library, other);
}

static bool take_functions(void *library)
{
	found = (struct blas_functions) {
		.sgemm = symbol(library, "cblas_sgemm"),
		.dgemm = symbol(library, "cblas_dgemm"),
		.sgemv = symbol(library, "cblas_sgemv"),
		.dgemv = symbol(library, "cblas_dgemv"),
		.get_num_threads = symbol(library, "openblas_get_num_threads"),
		.set_num_threads = symbol(library, "openblas_set_num_threads"),
	};
	return found.sgemm && found.dgemm && found.sgemv && found.dgemv;
}

/* ---- OpenBLAS on a processor that it does not know ------------------------- */

/* It takes a newer one than itself for the oldest of all, which costs three
 * quarters of the speed. The kernels that this processor can run: NULL, where
 * OpenBLAS has found some that are about as good. */
static const char *better_core(void *library)
{
	static const char *const old[] = {"Prescott", "Core2", "Penryn",
		"Dunnington", "Nehalem", "Sandybridge", "Atom", "Generic"};
	char *(*corename)(void) = symbol(library, "openblas_get_corename");
	const char *name = corename ? corename() : NULL;
	bool is_old = false;

	if (getenv("OPENBLAS_CORETYPE") || !name)
		return NULL;
	for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); i++)
		is_old = is_old || !strcasecmp(name, old[i]);
#ifdef __x86_64__
	if (is_old && __builtin_cpu_supports("avx512f") &&
		__builtin_cpu_supports("avx512bw") &&
		__builtin_cpu_supports("avx512dq") &&
		__builtin_cpu_supports("avx512vl"))
		return "SkylakeX";
	if (is_old && __builtin_cpu_supports("avx2") &&
		__builtin_cpu_supports("fma"))
		return "Haswell";
#endif
	return NULL;
}

static void *load(const char *name)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	const char *core = library ? better_core(library) : NULL;

	if (!library)
		snprintf(error, sizeof(error), "%s", dlerror());
	if (!core)
		return library;
	/* It reads its environment when it is loaded, and so will children of
	 * this process. If others use the library too it stays as it is. */
	dlclose(library);
	setenv("OPENBLAS_CORETYPE", core, 0);
	return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

/* ---- which ------------------------------------------------------------------ */

static void load_any(void)
{
	static const char *const others[] = {"libopenblas.so.0",
		"libflexiblas.so.3", "libblis.so.4", "libmkl_rt.so.2",
		"libcblas.so.3"};
	const char *asked = getenv("TARN_BLAS");
	void *library = NULL;

	if (asked && *asked) {
		library = load(asked);
	} else {
		if (*BLAS_SONAME)
			library = load(BLAS_SONAME);
		for (size_t i = 0;
			!library && i < sizeof(others) / sizeof(others[0]); i++)
			library = load(others[i]);
	}
	if (!library)
		return;
	if (take_functions(library))
		loaded = &found;
	else
		snprintf(error, sizeof(error),
			"the library has no cblas_sgemm and cblas_dgemv");
}

/* Threads that it starts leave signals to the program's own, whose waits they
 * are to interrupt. */
static void load_once(void)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	load_any();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

const struct blas_functions *blas_load(void)
{
	pthread_once(&once, load_once);
	return loaded;
}

const char *blas_load_error(void)
{
	return error;
}
