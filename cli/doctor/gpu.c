/* SPDX-License-Identifier: MIT */
/*
 * GPUs. The driver's library is loaded if it is there; tarn is not linked with
 * it, and needs none.
 */
#include <dlfcn.h>
#include <string.h>

#include "cli/doctor/doctor.h"

#define DRIVER "/proc/driver/nvidia/version"

/* A function of the library, as a pointer to functions of that type. */
static int call_int(void *library, const char *name, int *ret)
{
	int (*fn)(int *) = NULL;

	*(void **)&fn = dlsym(library, name);
	return fn ? fn(ret) : -1;
}

void cuda_ask(struct cuda_facts *ret)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	int (*init)(unsigned) = NULL;

	*ret = (struct cuda_facts) {.library = library};
	if (!library)
		return;
	/* It stays loaded: the driver may have started threads. */
	*(void **)&init = dlsym(library, "cuInit");
	ret->init = init ? init(0) : -1;
	if (ret->init)
		return;
	ret->init = call_int(library, "cuDriverGetVersion", &ret->version);
	if (!ret->init)
		ret->init =
			call_int(library, "cuDeviceGetCount", &ret->devices);
}

static void find_driver(struct findings *findings,
	const struct cuda_facts *cuda, const char *version)
{
	static const char cost[] = "Processes here cannot use a GPU.";
	struct finding *f;

	f = found(findings, "gpu", "cuda", "%s", version);
	if (!cuda->library)
		advise(f, WORTH_COSTS, cost,
			"install the driver's libcuda.so.1, or docker run "
			"--gpus all");
	else
		advise(f, WORTH_COSTS, cost,
			"nvidia-smi says why (cuInit returned %d); in a "
			"container: docker run --gpus all",
			cuda->init);
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  ..." */
void find_gpu(struct findings *findings, const struct machine *machine)
{
	const struct cuda_facts *cuda = &machine->cuda;
	char version[512];
	bool driver = machine_line(machine, DRIVER, "NVRM version:", version,
			      sizeof(version)) == 0;

	if (cuda->library && !cuda->init)
		found(findings, "gpu", "cuda", "%d device%s, CUDA %d.%d%s%s",
			cuda->devices, cuda->devices == 1 ? "" : "s",
			cuda->version / 1000, cuda->version % 1000 / 10,
			driver ? ", " : "", driver ? version : "");
	else if (driver)
		find_driver(findings, cuda, version);
	else
		found(findings, "gpu", "cuda",
			"no driver of NVIDIA's; tarn needs none");
}
