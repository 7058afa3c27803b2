/* SPDX-License-Identifier: MIT */
/*
 * How a device comes to read memory: which way it gets, what is registered and
 * for how long, and what each failure says. Without a daemon; the memory is
 * this test's own.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/cuda/cuda.h"
#include "tests/cuda/cases.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/kit/tap.h"

#define SIZE (1u << 20)

static void *map(size_t size, int rights)
{
	void *p = mmap(NULL, size, rights,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		bail("mapping %zu bytes: %m", size);
	return p;
}

static void find(const char *name, uint8_t ret[16])
{
	if (cuda_device_find(name, ret) < 0)
		bail("device %s: %s", name, tarn_fail_message());
}

/* Reached, and then at that distance from the host's address. */
static void reached(
	const void *p, bool writable, const uint8_t uuid[16], uint64_t offset)
{
	uint64_t at = 0, calls;
	int r = cuda_reach(p, SIZE, writable, uuid);

	check(r == 0, "reach: %d, %s", r, r < 0 ? tarn_fail_message() : "");
	calls = count_calls();
	r = cuda_known((const char *)p + 100, 200, writable, uuid, &at);
	check(r == 0 && at == (uintptr_t)p + 100 + offset,
		"it is known: %d, %#llx for %p", r, (unsigned long long)at, p);
	check(cuda_reach(p, SIZE, writable, uuid) == 0, "reach again");
	check(count_calls() == calls, "the driver is not called again");
}

/* ---- devices ------------------------------------------------------------- */

static void no_device(void)
{
	uint8_t uuid[16];

	check_failed(-ENODEV, "shows no device", cuda_device_find("0", uuid),
		"no device");
}

static void no_init(void)
{
	uint8_t uuid[16];

	check_failed(-ENODEV, "CUDA_ERROR_NO_DEVICE",
		cuda_device_find("0", uuid), "cuInit fails");
	/* And it may succeed later. */
	case_set("INIT", "0");
	check(cuda_device_find("0", uuid) == 0, "it is tried again");
}

static void too_old(void)
{
	uint8_t uuid[16];

	check_failed(-ENOTSUP, "11.4 or newer", cuda_device_find("0", uuid),
		"an old driver");
}

static void names(void)
{
	static const char *const second[] = {"1", "0000:3c:00.0", "3C:00.0",
		"GPU-abababab-abab-abab-abab-ababababab01",
		"ababababababababababababababab01",
		"gpu-ABABABABABABABABABABABABABABAB01"};
	uint8_t uuid[16], wanted[16];
	char text[CUDA_UUID_TEXT];

	memset(wanted, 0xab, sizeof(wanted));
	wanted[15] = 1;
	for (size_t i = 0; i < ARRAY_SIZE(second); i++) {
		find(second[i], uuid);
		check(!memcmp(wanted, uuid, 16), "%s is the second", second[i]);
	}
	check(!strcmp(second[3], cuda_uuid_text(wanted, text)),
		"a UUID is written as it is read: %s", text);
	check_failed(-ENODEV, "there are 3", cuda_device_find("3", uuid),
		"an index");
	check_failed(-ENODEV, "there are 3",
		cuda_device_find("99999999999999999999", uuid), "a large one");
	check_failed(-ENODEV, "0000:99", cuda_device_find("0000:99:00.0", uuid),
		"an address");
	check_failed(-EINVAL, "neither", cuda_device_find("cuda:0", uuid),
		"no name");
	check_failed(-EINVAL, "neither", cuda_device_find("", uuid), "none");
}

/* ---- ways ---------------------------------------------------------------- */

static void registers(bool writable)
{
	uint8_t uuid[16];
	char *p = map(SIZE, writable ? PROT_READ | PROT_WRITE : PROT_READ);
	uint64_t at;

	find("0", uuid);
	check(cuda_known(p, SIZE, writable, uuid, &at) == 1, "not known yet");
	reached(p, writable, uuid, FAKECUDA_OFFSET(0));
	check(count_bytes() == SIZE, "it is registered once");
	cuda_forget(p + SIZE, SIZE);
	check(count_bytes() == SIZE, "what is beside it is forgotten alone");
	cuda_forget(p, SIZE);
	check(count_registrations() == 0, "it is unregistered");
	check(cuda_known(p, SIZE, writable, uuid, &at) == 1, "not known now");
	munmap(p, SIZE);
}

static void read_only(void)
{
	registers(false);
}

static void writable(void)
{
	registers(true);
}

static void pageable(void)
{
	uint8_t uuid[16];
	char *p = map(SIZE, PROT_READ);

	find("0", uuid);
	reached(p, false, uuid, 0);
	check(count_registrations() == 0, "nothing is registered");
	munmap(p, SIZE);
}

static void nothing_works(void)
{
	uint8_t uuid[16];
	char *p = map(SIZE, PROT_READ);

	find("0", uuid);
	check_failed(-ENOTSUP, "READ_ONLY_HOST_REGISTER_SUPPORTED is 0",
		cuda_reach(p, SIZE, false, uuid), "read-only memory");
	munmap(p, SIZE);
}

static void nothing_at_all(void)
{
	uint8_t uuid[16];
	char *p = map(SIZE, PROT_READ | PROT_WRITE);

	find("0", uuid);
	check_failed(-ENOTSUP, "HOST_REGISTER_SUPPORTED is 0",
		cuda_reach(p, SIZE, true, uuid), "writable memory");
	munmap(p, SIZE);
}

/* ---- refusals ------------------------------------------------------------ */

static void refused(void)
{
	static const struct {
		const char *error;
		int r;
		const char *part;
	} cases[] = {{"2", -ENOMEM, "CUDA_ERROR_OUT_OF_MEMORY"},
		{"801", -ENOTSUP, "READ_ONLY_HOST_REGISTER_SUPPORTED is 1"},
		{"712", -EBUSY, "cudaHostRegister"}, {"1", -EIO, "1048576"},
		{"54321", -EIO, "the driver returned 54321"}};
	uint8_t uuid[16];
	char *p = map(SIZE, PROT_READ);

	find("0", uuid);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		case_set("REGISTER", cases[i].error);
		check_failed(cases[i].r, cases[i].part,
			cuda_reach(p, SIZE, false, uuid), cases[i].error);
	}
	case_set("REGISTER", "0");
	reached(p, false, uuid, FAKECUDA_OFFSET(0));
	cuda_forget(p, SIZE);
	munmap(p, SIZE);
}

/* Refused where it should work, and read as it is. */
static void falls_back(void)
{
	uint8_t uuid[16];
	char *p = map(SIZE, PROT_READ | PROT_WRITE);

	find("0", uuid);
	reached(p, true, uuid, 0);
	check(count_registrations() == 0, "nothing is registered");
	cuda_forget(p, SIZE);
	munmap(p, SIZE);
}

static void lost(void)
{
	uint8_t uuid[16];
	char *p = map(SIZE, PROT_READ), *q = map(SIZE, PROT_READ);

	find("0", uuid);
	reached(p, false, uuid, FAKECUDA_OFFSET(0));
	case_set("LOST", "214");
	check_failed(-EIO, "CUDA_ERROR_ECC_UNCORRECTABLE",
		cuda_reach(q, SIZE, false, uuid), "a lost device");
	cuda_forget(p, SIZE);
	check_failed(-EIO, "CUDA_ERROR_ECC_UNCORRECTABLE",
		cuda_reach(p, SIZE, false, uuid), "after it was forgotten");
	munmap(p, SIZE);
	munmap(q, SIZE);
}

/* ---- several ------------------------------------------------------------- */

static void two_devices(void)
{
	uint8_t first[16], second[16], third[16];
	char *p = map(SIZE, PROT_READ);

	find("0", first);
	find("1", second);
	find("2", third);
	reached(p, false, first, FAKECUDA_OFFSET(0));
	reached(p, false, second, FAKECUDA_OFFSET(1));
	check(count_registrations() == 1, "both have one registration");
	/* This one cannot register it, but need not. */
	reached(p, false, third, 0);
	cuda_forget(p, SIZE);
	check(count_registrations() == 0, "it is unregistered");
	munmap(p, SIZE);
}

static void chunks(void)
{
	uint64_t size = (uint64_t)130 << 30, at = 0;
	void *p = mmap(NULL, size, PROT_READ,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint8_t uuid[16];

	if (p == MAP_FAILED) {
		diag("no addresses for 130 GiB");
		return;
	}
	find("0", uuid);
	check(cuda_reach(p, size, false, uuid) == 0, "reach: %s",
		tarn_fail_message());
	check(count_registrations() == 3 && count_bytes() == size,
		"%llu registrations",
		(unsigned long long)count_registrations());
	check(cuda_known(p, size, false, uuid, &at) == 0 &&
			at == (uintptr_t)p + FAKECUDA_OFFSET(0),
		"all pieces have one address");
	cuda_forget(p, size);
	munmap(p, size);
}

/* ---- forks --------------------------------------------------------------- */

static void in_child(const char *p, const uint8_t uuid[16])
{
	uint64_t at;

	check_failed(-ENOTSUP, "fork()", cuda_reach(p, SIZE, false, uuid),
		"a child");
	check_failed(-ENOTSUP, "fork()", cuda_known(p, SIZE, false, uuid, &at),
		"a child");
	cuda_forget(p, SIZE);
	munmap((void *)p, SIZE);
}

static void forks(void)
{
	uint8_t uuid[16];
	char *p = map(SIZE, PROT_READ);
	int status = -1;
	pid_t pid;

	find("0", uuid);
	reached(p, false, uuid, FAKECUDA_OFFSET(0));
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		in_child(p, uuid);
		exit(check_result());
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		bail("fork: %m");
	check(status == 0, "the child calls no driver: %#x", status);
	reached(p, false, uuid, FAKECUDA_OFFSET(0));
	check(count_bytes() == SIZE, "the parent's memory is registered");
	cuda_forget(p, SIZE);
	munmap(p, SIZE);
}

/* A child whose parent never used a GPU may use one. */
static void forks_first(void)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		read_only();
		exit(check_result());
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		bail("fork: %m");
	check(status == 0, "the child: %#x", status);
	read_only();
}

static const struct case_ cases[] = {
	{"none", "without a device there is a sentence", no_device,
		{"DEVICES=0"}},
	{"init", "the driver's error at its start is passed on", no_init,
		{"INIT=100"}},
	{"old", "a driver without the functions is too old", too_old,
		{"OLD=1"}},
	{"version", "a driver of CUDA 11.0 is too old", too_old,
		{"VERSION=11000"}},
	{"oldest", "a driver of CUDA 11.4 is new enough", read_only,
		{"VERSION=11040", "READ_ONLY=1"}},
	{"names", "devices have an index, a PCI address and a UUID", names,
		{"DEVICES=3"}},
	{"read_only", "read-only memory is registered for reading", read_only,
		{"READ_ONLY=1"}},
	{"writable", "writable memory is registered on any device", writable,
		{NULL}},
	{"writable_pageable", "writable memory is registered if it can be",
		writable, {"PAGEABLE=1"}},
	{"both", "registration comes before pages of the host's", read_only,
		{"READ_ONLY=1", "PAGEABLE=1", "PAGE_TABLES=1"}},
	{"pageable", "a device that reads any memory needs no registration",
		pageable, {"PAGEABLE=1"}},
	{"nothing", "a device without a way is named, with what it lacks",
		nothing_works, {NULL}},
	{"nothing_at_all", "writable memory may have no way, too",
		nothing_at_all, {"REGISTERS=0"}},
	{"refused", "refusals of the driver are errors with its names", refused,
		{"READ_ONLY=1"}},
	{"falls_back", "a device that refuses may read memory as it is",
		falls_back, {"REGISTER=801", "PAGEABLE=1"}},
	{"lost", "a lost device is an error, and nothing is left over", lost,
		{"READ_ONLY=1"}},
	{"two", "several devices share one registration", two_devices,
		{"DEVICES=3", "READ_ONLY=1", "READ_ONLY_2=0", "PAGEABLE_2=1"}},
	{"chunks", "more than 64 GiB are registered in pieces", chunks,
		{"READ_ONLY=1"}},
	{"forks", "a child has no registrations and its parent keeps them",
		forks, {"READ_ONLY=1"}},
	{"forks_first", "a child may load the driver if its parent has not",
		forks_first, {"READ_ONLY=1"}},
};

int main(int argc, char **argv)
{
	return cases_main(argc, argv, cases, (int)ARRAY_SIZE(cases));
}
