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
 *	FAKECUDA_UNIFIED=0     UNIFIED_ADDRESSING (1); also VIRTUAL (memory
 *	                       management, 1), DESCRIPTORS (as handles, 1),
 *	                       MAJOR (9), MINOR (0), PROCESSORS (4), ENGINES (2)
 *	FAKECUDA_LOST=E        what needs a context returns that error
 *	FAKECUDA_MEMORY=N      bytes of a device, for each process (256 MiB)
 *	FAKECUDA_LATE=N        microseconds that queued work takes (200)
 *	FAKECUDA_REGISTER_GATE=FD registering waits until something can be read
 *	                       from there, for a minute at most; other calls
 *	                       need not wait for it
 *	FAKECUDA_WORK=E        queued work fails, and all that is called later
 *	FAKECUDA_PITCH=N       the maximum of a pitch
 *	FAKECUDA_PCI=ADDRESS   where the first device is (0000:3B:00.0)
 * and FAKECUDA_<NAME>=E for the functions that can fail, where NAME is that of
 * lib/cuda/driver.h in capitals (MEMORY_CREATE, COPY_2D, LAUNCH; registering is
 * REGISTER); the first N calls succeed with FAKECUDA_<NAME>_AFTER=N, for WORK
 * too. Where a name ends in _ and a device's index, it is for that device alone
 * (MEMORY_CREATE_1, MEMORY_CREATE_AFTER_1); a function that is told no device
 * has the first form only.
 *
 * A device's memory is a memfd, mapped at an address of the host which the
 * device's address does not show: a host that uses the device's address dies of
 * it. Work is carried out by a thread, late and in order.
 *
 * It keeps an account. What was registered, retained, created, mapped, reserved
 * or loaded and not given back at the exit of the process, what was pushed and
 * not popped, work that was not done, work whose memory was freed or
 * unregistered before it was done, what is used after it was destroyed, and a
 * call in a child of fork() are said on stderr; the exit status is then
 * FAKECUDA_FAULT.
 */
#pragma once

#include <stdint.h>

#define FAKECUDA_FAULT 99

/* What a device adds to addresses of the host. */
#define FAKECUDA_OFFSET(device) (((uint64_t)(device) + 1) << 44)

/* Where the addresses of devices' own memory begin. */
#define FAKECUDA_VIRTUAL ((uint64_t)1 << 55)

/* The parameter of the stand-in's own kernel, "fakecuda_increment": adds 1 to
 * each byte. */
struct fakecuda_increment {
	uint64_t at, size;
};

/* Asked for by dlsym. Bytes that copies have moved to devices from elsewhere, by
 * the index of the device. */
uint64_t fakecuda_sent(int device);
/* Calls of the driver so far; those of one function, by its
 * name above ("COPY_2D"), or launches of a kernel by its own ("tarn_any"); and
 * what is registered now, in calls and in bytes. */
uint64_t fakecuda_calls(void);
uint64_t fakecuda_count(const char *name);
uint64_t fakecuda_registrations(void);
uint64_t fakecuda_registered(void);
/* Registrations that wait at their gate. */
uint64_t fakecuda_waiting(void);
