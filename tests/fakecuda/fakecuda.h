/* SPDX-License-Identifier: MIT */
/*
 * A stand-in for the driver of CUDA, over memory of the host: libcuda.so.1 in
 * the build folder, found by LD_LIBRARY_PATH and installed nowhere.
 *
 * Settings are environment variables, read at each call:
 *	FAKECUDA_DEVICES=N     how many there are (1)
 *	FAKECUDA_INIT=E        cuInit returns the error with that number
 *	FAKECUDA_VERSION=V     of the driver, 11000 is 11.0 (13000)
 *	FAKECUDA_OLD=1         cuGetProcAddress finds nothing
 *	FAKECUDA_REGISTERS=0   HOST_REGISTER_SUPPORTED (1)
 *	FAKECUDA_READ_ONLY=1   READ_ONLY_HOST_REGISTER_SUPPORTED (0)
 *	FAKECUDA_PAGEABLE=1    PAGEABLE_MEMORY_ACCESS (0)
 *	FAKECUDA_PAGE_TABLES=1 PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES (0)
 *	FAKECUDA_REGISTER=E    cuMemHostRegister returns that error
 *	FAKECUDA_LOST=E        so does all that needs a context
 * Where a name ends in _ and a device's index, it is for that device alone.
 *
 * It keeps an account. What is registered, or retained, and not given back at
 * the exit of the process, what was pushed and not popped, what was unregistered
 * after it was unmapped, and a call in a child of fork() are said on stderr; the
 * exit status is then FAKECUDA_FAULT.
 */
#pragma once

#include <stdint.h>

#define FAKECUDA_FAULT 99

/* What a device adds to addresses of the host. */
#define FAKECUDA_OFFSET(device) (((uint64_t)(device) + 1) << 44)

/* Asked for by dlsym. Calls of the driver so far; and what is registered now, in
 * calls and in bytes. */
uint64_t fakecuda_calls(void);
uint64_t fakecuda_registrations(void);
uint64_t fakecuda_registered(void);
