/* SPDX-License-Identifier: MIT */
/*
 * GPUs. The driver's library is loaded if it is there; tarn is not linked with
 * it, and needs none.
 */
#include <dlfcn.h>
#include <string.h>

#include "base/checked.h"
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
	if (ret->init || !cuda_is_built())
		return;
	while (ret->n_traits < MIN(ret->devices, CUDA_DEVICES_MAX) &&
		cuda_device_traits(
			ret->n_traits, &ret->traits[ret->n_traits]) >= 0)
		ret->n_traits++;
}

/* How a device reads published tensors, by the function that decides it. */
static void find_device(struct findings *findings,
	const struct cuda_traits *traits, bool registers)
{
	char uuid[CUDA_UUID_TEXT];
	const char *how = "reads them in place, registered for reading";
	bool mutable = cuda_way(traits, true, false) != CUDA_WAY_NONE;
	enum cuda_way way = cuda_way(traits, false, false);
	struct finding *f;

	if (way == CUDA_WAY_PAGEABLE)
		how = traits->host_page_tables
			      ? "reads them in place, by the host's page tables"
			      : "reads them in place, by page faults";
	else if (way == CUDA_WAY_NONE && mutable && registers)
		how = "reads them in place, registered before they are "
		      "protected (register = yes)";
	else if (way == CUDA_WAY_NONE)
		how = mutable ? "reads mutable ones in place, and no others"
			      : "reads none in place";
	f = found(findings, "gpu", "device", "%s at %s, %s: %s", traits->name,
		traits->pci, cuda_uuid_text(traits->uuid, uuid), how);
	if (way == CUDA_WAY_NONE && mutable && !registers)
		advise(f, WORTH_COSTS,
			"Tensors that are read-only must be copied to this "
			"device.",
			"install the driver's open kernel modules (535 or "
			"newer; Linux 6.1.24 or newer), or start the daemon of "
			"your own user with tarnd --register");
	else if (way == CUDA_WAY_NONE && !mutable)
		advise(f, WORTH_COSTS,
			"Tensors that are read-only must be copied to this "
			"device.",
			"install the driver's open kernel modules (535 or "
			"newer; Linux 6.1.24 or newer)");
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
	for (int i = 0; i < cuda->n_traits; i++)
		find_device(findings, &cuda->traits[i], machine->registers);
}
