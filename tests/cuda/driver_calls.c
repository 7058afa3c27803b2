/* SPDX-License-Identifier: MIT */
#include "tests/cuda/driver_calls.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "tests/cuda/cases.h"
#include "tests/kit/tap.h"

const struct cuda_driver *cu;
CUdevice device;

void driver_must(CUresult e, const char *what)
{
	const char *name = "?";

	if (e)
		cu->error_name(e, &name);
	check(e == CUDA_SUCCESS, "%s: %d %s", what, e, name);
}

void driver_enter(int index)
{
	CUcontext context;

	if (cuda_driver_load(&cu) < 0)
		bail("%s", tarn_fail_message());
	MUST(device_get(&device, index));
	MUST(context_retain(&context, device));
	MUST(context_push(context));
}

void driver_leave(void)
{
	CUcontext context;

	MUST(context_pop(&context));
	MUST(context_release(device));
}

/* ---- memory -------------------------------------------------------------- */

const CUmemAllocationProp *driver_memory_prop(void)
{
	static CUmemAllocationProp p;

	p = (CUmemAllocationProp) {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {
			.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
	return &p;
}

void driver_memory_map(struct driver_memory *m)
{
	CUmemAccessDesc desc = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	MUST(address_reserve(&m->at, SIZE, 0, 0, 0));
	MUST(memory_map(m->at, SIZE, 0, m->handle, 0));
	MUST(memory_set_access(m->at, SIZE, &desc, 1));
}

struct driver_memory driver_memory(void)
{
	struct driver_memory m;

	MUST(memory_create(&m.handle, SIZE, driver_memory_prop(), 0));
	driver_memory_map(&m);
	return m;
}

void driver_memory_free(const struct driver_memory *m)
{
	MUST(memory_unmap(m->at, SIZE));
	MUST(address_free(m->at, SIZE));
	MUST(memory_release(m->handle));
}

void *driver_pinned(void)
{
	void *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		bail("mmap: %m");
	MUST(host_register(p, SIZE,
		CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
	return p;
}

void driver_unpin(void *p)
{
	MUST(host_unregister(p));
	munmap(p, SIZE);
}

bool driver_is_all(const unsigned char *p, int value)
{
	for (size_t i = 0; i < SIZE; i++)
		if (p[i] != value)
			return false;
	return true;
}

/* ---- processes ----------------------------------------------------------- */

int case_run(const char *name, int fd)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		if (fd >= 0 && dup2(fd, 3) < 0)
			_exit(1);
		execl("/proc/self/exe", "case", name, NULL);
		_exit(1);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		bail("%s: %m", name);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
