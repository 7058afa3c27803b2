/* SPDX-License-Identifier: MIT */
/*
 * Pools of kind register: on a device that registers no read-only memory their
 * segments are mapped writable, registered and protected again, and those of
 * other pools are refused. The stand-in for the driver looks at what is mapped
 * when it registers.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/checked.h"
#include "base/fail.h"
#include "tests/cuda/cases.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"

enum { SEED = 7 };
#define SIZE ((uint64_t)5 << 20) /* it reaches into three segments */

static struct daemon server;
static tarn_store *store;
static struct tarn_cuda_device gpu, second;
static tarn_tensor *tensor;

/* ---- a daemon ------------------------------------------------------------ */

static void load(const char *name)
{
	const char *path = tensor_file("file", SEED, SIZE);
	char full[64];

	snprintf(full, sizeof(full), "%s/x", name);
	must(tensor_load(store, path, name));
	must(tarn_store_lookup(store, full, &tensor));
	unlink(path);
}

static void begin_with(const char *option)
{
	const char *const options[] = {
		"--segment-size=2M", "--idle=1", option, NULL};

	store = daemon_start_open(&server, "register", options);
	load("a");
	must(tarn_cuda_device("0", &gpu));
}

static void begin(void)
{
	begin_with("--register");
}

static void end(void)
{
	tarn_tensor_unref(tensor);
	tarn_store_unref(store);
	check(count_registrations() == 0, "nothing stays registered");
	check(daemon_stop(&server) == 0, "the daemon ends in order");
}

/* ---- what is mapped ------------------------------------------------------ */

/* The first address of the tensor that has the right, in the kernel's words. */
static bool has_right(const char *right)
{
	uintptr_t at = (uintptr_t)tarn_tensor_data(tensor);
	FILE *maps = fopen("/proc/self/maps", "re");
	bool has = false;
	char line[1024];

	if (!maps)
		bail("/proc/self/maps: %m");
	while (!has && fgets(line, sizeof(line), maps)) {
		unsigned long first, stop;
		char rights[5];

		has = sscanf(line, "%lx-%lx %4s", &first, &stop, rights) == 3 &&
		      first < at + SIZE && at < stop && strchr(rights, *right);
	}
	fclose(maps);
	return has;
}

/* How a child ends that writes to that byte: the signal. */
static int write_kills(uint64_t byte)
{
	int status = -1;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit) {0});
		signal(SIGSEGV, SIG_DFL); /* a sanitizer has its own */
		((volatile char *)tarn_tensor_data(tensor))[byte] = 1;
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void is_sound(const char *when)
{
	check(!has_right("w"), "%s nothing is mapped writable", when);
	check(write_kills(0) == SIGSEGV && write_kills(SIZE - 1) == SIGSEGV,
		"%s a write is a SIGSEGV", when);
	check(tensor_is(tensor, SEED, SIZE), "%s the bytes are right", when);
}

static void is_reached(const struct tarn_cuda_device *device, uint64_t offset)
{
	uint64_t at = 0;
	int r = tarn_tensor_device_pointer(tensor, device, &at);

	check(r == 0, "it has a pointer: %d, %s", r,
		r < 0 ? tarn_error_message() : "");
	check(at == (uintptr_t)tarn_tensor_data(tensor) + offset,
		"it is read at its own address: %#llx", (unsigned long long)at);
}

/* ---- cases --------------------------------------------------------------- */

static void usual(void)
{
	uint64_t at;

	begin_with(NULL);
	check_failed(-ENOTSUP, "register = yes",
		tarn_tensor_device_pointer(tensor, &gpu, &at),
		"a pool that is sealed");
	check_failed(-ENOTSUP, "READ_ONLY_HOST_REGISTER_SUPPORTED is 0",
		tarn_cuda_register(store, &gpu, NULL), "all of it");
	is_sound("after that");
	end();
}

static void registers(void)
{
	begin();
	is_sound("before");
	is_reached(&gpu, FAKECUDA_OFFSET(0));
	check(count_registrations() >= 3 && count_bytes() >= SIZE,
		"each segment is registered: %llu",
		(unsigned long long)count_registrations());
	is_sound("registered");
	tarn_cuda_unregister(store);
	check(count_registrations() == 0, "it is unregistered");
	is_sound("unregistered");
	is_reached(&gpu, FAKECUDA_OFFSET(0));
	is_sound("registered again");
	end();
}

static int count_up(void *arg, uint64_t done, uint64_t total)
{
	check(done <= total, "%llu of %llu", (unsigned long long)done,
		(unsigned long long)total);
	++*(int *)arg;
	return 0;
}

static void all(void)
{
	int n = 0;
	const struct tarn_cuda_register_options options = {
		.progress = count_up, .arg = &n};
	uint64_t calls;

	begin();
	must(tarn_cuda_register(store, &gpu, &options));
	check(n >= 3 && count_registrations() >= 3, "%d segments", n);
	is_sound("all registered");
	calls = count_calls();
	is_reached(&gpu, FAKECUDA_OFFSET(0));
	check(count_calls() == calls, "the driver is not called again");
	end();
}

static void two_devices(void)
{
	uint64_t n;

	begin();
	must(tarn_cuda_device("1", &second));
	is_reached(&gpu, FAKECUDA_OFFSET(0));
	n = count_registrations();
	is_reached(&second, FAKECUDA_OFFSET(1));
	check(count_registrations() == n, "both have one registration");
	check(count_of("REGISTER") == n, "it is registered once");
	is_sound("for two devices");
	end();
}

/* One that can do otherwise gets no writable mapping. */
static void read_only(void)
{
	begin();
	is_reached(&gpu, FAKECUDA_OFFSET(0));
	is_sound("registered for reading");
	end();
}

static void pageable(void)
{
	begin();
	is_reached(&gpu, 0);
	check(count_registrations() == 0, "nothing is registered");
	end();
}

static void fails(void)
{
	uint64_t at;

	begin();
	case_set("REGISTER_AFTER", "1");
	case_set("REGISTER", "2");
	check_failed(-ENOMEM, "CUDA_ERROR_OUT_OF_MEMORY",
		tarn_tensor_device_pointer(tensor, &gpu, &at),
		"the second segment");
	check(count_registrations() == 1, "the first stays registered");
	is_sound("after a failure");
	case_set("REGISTER", "0");
	is_reached(&gpu, FAKECUDA_OFFSET(0));
	is_sound("after another attempt");
	end();
}

static void no_pointer(void)
{
	uint64_t at;

	begin();
	case_set("HOST_DEVICE_POINTER", "1");
	check_failed(-EIO, "CUDA_ERROR_INVALID_VALUE",
		tarn_tensor_device_pointer(tensor, &gpu, &at), "no address");
	check(count_registrations() == 0, "nothing is left registered");
	is_sound("without an address");
	end();
}

/* ---- others at the same time --------------------------------------------- */

static atomic_bool over;
static atomic_int wrong;
static atomic_uint delay_us;

/* In the place of the C library's: segments stay writable for a while, so that
 * others meet them so. */
int mprotect(void *start, size_t size, int rights)
{
	unsigned us = atomic_load(&delay_us);

	if (us)
		usleep(us);
	return (int)syscall(SYS_mprotect, start, size, rights);
}

static void *reads(void *arg)
{
	(void)arg;
	while (!atomic_load(&over))
		if (!tensor_is(tensor, SEED, SIZE))
			atomic_fetch_add(&wrong, 1);
	return NULL;
}

/* A child that was forked at any moment has no right to write. */
static void *forks(void *arg)
{
	(void)arg;
	while (!atomic_load(&over)) {
		int status = -1;
		pid_t pid = fork();

		if (pid == 0)
			_exit(has_right("w"));
		if (pid > 0 && waitpid(pid, &status, 0) == pid && status)
			atomic_fetch_add(&wrong, 1);
	}
	return NULL;
}

static void beside(void *(*fn)(void *arg), int rounds)
{
	pthread_t thread;

	begin();
	atomic_store(&delay_us, 2000);
	if (pthread_create(&thread, NULL, fn, NULL))
		bail("no thread");
	for (int i = 0; i < rounds; i++) {
		is_reached(&gpu, FAKECUDA_OFFSET(0));
		tarn_cuda_unregister(store);
	}
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	check(atomic_load(&wrong) == 0, "%d were wrong", atomic_load(&wrong));
	is_sound("after that");
	end();
}

static void readers(void)
{
	beside(reads, 20);
}

static void children(void)
{
	beside(forks, 20);
}

static struct tarn_report_daemon report(void)
{
	struct tarn_report_daemon d = {0};

	must(report_daemon(store, &d));
	return d;
}

/* Waits until the daemon has given all segments back. */
static bool is_dropped(void)
{
	for (int ms = 0; ms < 60000 && report().allocated; ms += 10)
		usleep(10000);
	return report().allocated == 0;
}

/* A segment that goes is unregistered; one that comes is registered anew. */
static void drops(void)
{
	begin();
	is_reached(&gpu, FAKECUDA_OFFSET(0));
	tarn_tensor_unref(tensor);
	must(tarn_store_remove(store, "a/x"));
	check(is_dropped(), "the segments go back");
	load("b");
	check(count_registrations() == 0, "dropped ones are unregistered: %llu",
		(unsigned long long)count_registrations());
	is_reached(&gpu, FAKECUDA_OFFSET(0));
	is_sound("another tensor");
	end();
}

/* The next server hands segments out for writing as the last one did. */
static void restarts(void)
{
	begin();
	server_kill(&server);
	is_reached(&gpu, FAKECUDA_OFFSET(0));
	is_sound("under the next server");
	end();
}

/* An upgraded daemon has the segments by descriptors for reading alone. */
static void upgrades(void)
{
	begin();
	kill(server.pid, SIGUSR2);
	for (int ms = 0; ms < 60000 && !report().upgrades; ms += 5)
		usleep(5000);
	check(report().upgrades == 1, "the daemon is upgraded");
	is_reached(&gpu, FAKECUDA_OFFSET(0));
	is_sound("after the upgrade");
	tarn_tensor_unref(tensor);
	load("b");
	is_reached(&gpu, FAKECUDA_OFFSET(0));
	is_sound("in a new segment");
	end();
}

static const struct case_ cases[] = {
	{"usual", "other pools are refused, and the sentence names the setting",
		usual, {NULL}},
	{"registers", "segments are registered, and read-only before and after",
		registers, {NULL}},
	{"all", "all segments of a pool are registered at once", all, {NULL}},
	{"two", "a second device needs no writable mapping", two_devices,
		{"DEVICES=2"}},
	{"read_only", "a device that registers read-only memory does so",
		read_only, {"READ_ONLY=1"}},
	{"pageable", "a device that reads any memory registers nothing",
		pageable, {"PAGEABLE=1"}},
	{"fails", "a failure to register leaves a readable pool", fails,
		{NULL}},
	{"no_pointer", "a device without an address leaves a readable pool",
		no_pointer, {NULL}},
	{"readers", "threads that read notice nothing", readers, {NULL}},
	{"children", "no child inherits the right to write", children, {NULL}},
	{"drops", "what comes after a dropped tensor is registered", drops,
		{NULL}},
	{"restarts", "another server goes on", restarts, {NULL}},
	{"upgrades", "an upgraded daemon goes on", upgrades, {NULL}},
};

int main(int argc, char **argv)
{
	return cases_main(argc, argv, cases, (int)ARRAY_SIZE(cases));
}
