/* SPDX-License-Identifier: MIT */
/*
 * The engine that reads files, and how much memory it may register.
 *
 * Whether io_uring works is found out by using it. Why it does not is read off
 * the places that can forbid it, in the order in which the kernel asks them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "base/file_limit.h"
#include "base/headroom_internal.h"
#include "base/page.h"
#include "cli/doctor/doctor.h"
#include "cli/size.h"
#include "lib/io/io.h"

#define WAIT_MS 10000 /* for a page that is in memory */

/* ---- asking -------------------------------------------------------------- */

static void read_done(struct tarn_io_request *req)
{
	(void)req;
}

/* A page of memory, read as a file is. */
static int try_read(struct tarn_io *io)
{
	static char page[PAGE];
	_cleanup_fd_ int fd = fd_memory("tarn-doctor");
	struct tarn_io_request req = {.buffer = -1,
		.addr = page,
		.size = sizeof(page),
		.res = -ETIMEDOUT,
		.done = read_done};
	int r = fd < 0 ? fd : file_limit_check(sizeof(page));

	if (r == 0)
		r = fd_write_all(fd, page, sizeof(page));
	if (r < 0)
		return r;
	req.file = tarn_io_add_file(io, fd);
	if (req.file < 0)
		return req.file;
	r = tarn_io_read(io, &req);
	if (r == 0)
		r = tarn_io_submit_and_wait(io, 1, WAIT_MS);
	tarn_io_drop_file(io, req.file);
	return r < 0 ? r : req.res;
}

void engine_ask(struct engine_facts *ret)
{
	struct tarn_io *io = NULL;

	*ret = (struct engine_facts) {0};
	ret->uring = tarn_io_new_named("io_uring", -1, &io);
	if (ret->uring < 0)
		snprintf(ret->uring_why, sizeof(ret->uring_why), "%s",
			tarn_fail_message());
	else
		io = tarn_io_free(io);
	ret->any = tarn_io_new(-1, &io);
	if (ret->any < 0) {
		snprintf(ret->why, sizeof(ret->why), "%s", tarn_fail_message());
		return;
	}
	snprintf(ret->name, sizeof(ret->name), "%s", tarn_io_name(io));
	snprintf(ret->why, sizeof(ret->why), "%s", tarn_io_why(io));
	ret->read = try_read(io);
	tarn_io_free(io);
}

/* ---- the engine ---------------------------------------------------------- */

#define SYSCTL "/proc/sys/kernel/io_uring_disabled"

static bool has_text(
	const struct machine *machine, const char *path, const char *wanted)
{
	char text[32];

	return machine_read(machine, text, sizeof(text), "%s", path) >= 0 &&
	       strcmp(text, wanted) == 0;
}

static bool is_off(const struct machine *machine)
{
	return has_text(machine, SYSCTL, "2");
}

static bool is_for_a_group(const struct machine *machine)
{
	return has_text(machine, SYSCTL, "1");
}

static bool is_filtered(const struct machine *machine)
{
	char text[8];

	return machine_line(machine, "/proc/self/status", "Seccomp:", text,
		       sizeof(text)) == 0 &&
	       strcmp(text, "2") == 0;
}

static bool is_always(const struct machine *machine)
{
	(void)machine;
	return true;
}

/* The first row that fits is the reason. */
static const struct {
	int error;
	bool (*fits)(const struct machine *machine);
	const char *reason;
	const char *remedy;
} refusals[] = {
	{-EPERM, is_off, "sysctl kernel.io_uring_disabled is 2",
		"sysctl -w kernel.io_uring_disabled=0"},
	{-EPERM, is_for_a_group, "sysctl kernel.io_uring_disabled is 1",
		"sysctl -w kernel.io_uring_disabled=0, or "
		"kernel.io_uring_group=GID"},
	{-EPERM, is_filtered, "a seccomp filter forbids it",
		"allow io_uring_setup, io_uring_enter and io_uring_register "
		"in the container's seccomp profile"},
	{-ENOSYS, is_filtered,
		"a seccomp filter hides it, or the kernel lacks it",
		"allow io_uring_setup, io_uring_enter and io_uring_register "
		"in the container's seccomp profile"},
	{-EPERM, is_always,
		"nothing that is seen forbids it, so perhaps a security module",
		"allow io_uring in the policy of SELinux or AppArmor"},
	{-ENOMEM, is_always, "the memlock limit is used up",
		"ulimit -Hl unlimited, or LimitMEMLOCK=infinity in "
		"tarnd.service"},
	{-ENOSYS, is_always, "this kernel or this build lacks it",
		"install liburing-dev and build tarn again, or boot a kernel "
		"with CONFIG_IO_URING"},
};

static void advise_refused(struct finding *f, const struct machine *machine)
{
	static const char cost[] =
		"Threads read the files, which takes more CPU time for each "
		"byte.";
	int error = machine->engine.uring;

	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		if (refusals[i].error != error || !refusals[i].fits(machine))
			continue;
		snprintf(f->value, sizeof(f->value),
			"threads; io_uring is refused with %s: %s",
			tarn_errno_text(-error), refusals[i].reason);
		advise(f, WORTH_COSTS, cost, "%s", refusals[i].remedy);
		return;
	}
	advise(f, WORTH_COSTS, cost, "none is known for %s",
		tarn_errno_text(-error));
}

static void find_engine(
	struct findings *findings, const struct machine *machine)
{
	const struct engine_facts *e = &machine->engine;
	struct finding *f;

	if (e->any < 0) {
		f = found(findings, "reading", "engine", "none: %s", e->why);
		advise(f, WORTH_BROKEN, "No file can be loaded.",
			"unset TARN_ENGINE");
		return;
	}
	f = found(findings, "reading", "engine", "%s%s%s", e->name,
		e->why[0] ? ": " : "", e->why);
	if (e->read != (int)PAGE)
		advise(f, WORTH_BROKEN,
			"A read of a page that is in memory failed.",
			"TARN_ENGINE=threads");
	else if (e->uring < 0)
		advise_refused(f, machine);
	else if (strcmp(e->name, "io_uring"))
		advise(f, WORTH_COSTS,
			"Threads read the files, which takes more CPU time "
			"for each byte.",
			"unset TARN_ENGINE");
}

/* ---- memlock ------------------------------------------------------------- */

#define CAP_IPC_LOCK_BIT 14
/* The kernel asks for the capability in the initial user namespace, which maps
 * each uid to itself. */
#define ALL_UIDS "4294967295"

static bool may_lock(const struct machine *machine)
{
	char caps[32], map[256];

	if (machine_process_line(
		    machine, "status", "CapEff:", caps, sizeof(caps)) < 0 ||
		machine_process_line(machine, "uid_map", "", map, sizeof(map)) <
			0)
		return false;
	return strtoull(caps, NULL, 16) >> CAP_IPC_LOCK_BIT & 1 &&
	       strstr(map, ALL_UIDS);
}

/* Half of what may be taken is the default budget of tarnd. */
static void find_memlock(
	struct findings *findings, const struct machine *machine)
{
	uint64_t limit, room;
	char text[SIZE_TEXT_MAX];
	struct finding *f;

	if (may_lock(machine)) {
		found(findings, "reading", "memlock", "no limit: CAP_IPC_LOCK");
		return;
	}
	if (machine_limit(machine, "Max locked memory", &limit) < 0) {
		found_unknown(findings, "reading", "memlock",
			"/proc/%s/limits cannot be read", machine->process);
		return;
	}
	if (limit == UINT64_MAX || strcmp(machine->engine.name, "io_uring")) {
		found(findings, "reading", "memlock", "%s",
			limit == UINT64_MAX ? "no limit"
					    : "threads register nothing");
		return;
	}
	size_text((double)limit, text);
	if (headroom_at(machine->root, &room, NULL, 0) < 0) {
		found_unknown(findings, "reading", "memlock",
			"%s; whether tarn has more to register is not known",
			text);
		return;
	}
	f = found(findings, "reading", "memlock", "%s%s", text,
		machine_whose(machine));
	if (limit < room / 2)
		advise(f, WORTH_COSTS,
			"Memory beyond the limit is not registered with "
			"io_uring, so loads into it take some more CPU time.",
			"ulimit -Hl unlimited, LimitMEMLOCK=infinity in "
			"tarnd.service, or docker run --ulimit memlock=-1");
}

void find_reading(struct findings *findings, const struct machine *machine)
{
	find_engine(findings, machine);
	find_memlock(findings, machine);
}
