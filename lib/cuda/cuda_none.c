/* SPDX-License-Identifier: MIT */
/* Built without the CUDA Toolkit's header: there are no devices. */
#include "base/fail.h"
#include "lib/cuda/cuda.h"

static int not_built(void)
{
	return tarn_fail_constant(ENOTSUP,
		"this tarn was built without support for GPUs; configure it "
		"with the CUDA Toolkit's cuda.h (--with-cuda=FOLDER)");
}

bool cuda_is_built(void)
{
	return false;
}

int cuda_device_find(const char *name, uint8_t ret_uuid[16])
{
	(void)name;
	(void)ret_uuid;
	return not_built();
}

int cuda_device_traits(int index, struct cuda_traits *ret)
{
	(void)index;
	(void)ret;
	return not_built();
}

int cuda_known(const void *start, uint64_t size, bool writable,
	const uint8_t uuid[16], uint64_t *ret)
{
	(void)start;
	(void)size;
	(void)writable;
	(void)uuid;
	(void)ret;
	return not_built();
}

int cuda_reach(
	const void *start, uint64_t size, bool writable, const uint8_t uuid[16])
{
	(void)start;
	(void)size;
	(void)writable;
	(void)uuid;
	return not_built();
}

void cuda_forget(const void *start, uint64_t size)
{
	(void)start;
	(void)size;
}

void cuda_watch_forks(void)
{
}
