/* SPDX-License-Identifier: MIT */
/*
 * Which way a device reads memory of this process.
 *
 * The kernel refuses to pin memory for writing that is mapped read-only, as all
 * memory of a pool is. So a device must be able to register memory for reading
 * alone, or to read memory that is not registered. Memory that this process has
 * mapped writable can be registered on every device with CUDA.
 */
#include "lib/cuda/cuda.h"

#include <stdio.h>

#include "base/fail.h"

enum cuda_way cuda_way(
	const struct cuda_traits *traits, bool writable, bool refused)
{
	if (!refused && traits->registers) {
		if (writable)
			return CUDA_WAY_REGISTER;
		if (traits->registers_read_only)
			return CUDA_WAY_REGISTER_READ_ONLY;
	}
	return traits->reads_pageable ? CUDA_WAY_PAGEABLE : CUDA_WAY_NONE;
}

int cuda_fail_no_way(const struct cuda_traits *traits, bool writable)
{
	char uuid[CUDA_UUID_TEXT];

	cuda_uuid_text(traits->uuid, uuid);
	if (writable)
		return tarn_fail(ENOTSUP,
			"%s %s registers no memory of this process "
			"(HOST_REGISTER_SUPPORTED is %d) and reads none that is "
			"not registered (PAGEABLE_MEMORY_ACCESS is %d); copy "
			"the tensor to the device",
			traits->name, uuid, traits->registers,
			traits->reads_pageable);
	return tarn_fail(ENOTSUP,
		"%s %s registers no memory that is mapped read-only "
		"(READ_ONLY_HOST_REGISTER_SUPPORTED is %d) and reads none that "
		"is not registered (PAGEABLE_MEMORY_ACCESS is %d); a mutable "
		"tensor can be registered, and one in a pool with register = "
		"yes (tarnd --register, tarnd.conf), or copy this one to the "
		"device",
		traits->name, uuid, traits->registers_read_only,
		traits->reads_pageable);
}

const char *cuda_uuid_text(const uint8_t uuid[16], char buf[CUDA_UUID_TEXT])
{
	const uint8_t *u = uuid;

	snprintf(buf, CUDA_UUID_TEXT,
		"GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
		"%02x%02x%02x%02x%02x%02x",
		u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9],
		u[10], u[11], u[12], u[13], u[14], u[15]);
	return buf;
}
