/* SPDX-License-Identifier: MIT */
/*
 * What tarn doctor finds on this machine, whatever it has: findings that are
 * whole, and the truth about io_uring behind a seccomp filter.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "cli/doctor/doctor.h"
#include "tests/cli/doctor_findings.h"
#include "tests/kit/no_uring.h"
#include "tests/kit/tap.h"

static struct machine this_machine(void)
{
	struct machine m = {.root = "", .process = "self"};

	if (uname(&m.uts) < 0)
		bail("uname: %m");
	engine_ask(&m.engine);
	cuda_ask(&m.cuda);
	return m;
}

static void test_this_machine(void)
{
	static const struct wanted folder = {
		"type", WORTH_BROKEN, "neither a file", "name a file"};
	static const struct wanted missing = {
		"type", WORTH_BROKEN, "No such file", "name a file"};
	_cleanup_findings_ struct findings a = {0}, b = {0}, c = {0};
	struct machine m = this_machine();

	is_int(0, m.engine.any, "an engine works here: %s", m.engine.name);
	is_int(4096, m.engine.read, "the engine reads a page");
	a = doctor_look(&m);
	find_files(&a, &m, test_tmpdir());
	find_files(&a, &m, "/proc/self/exe");
	ok(findings_count(&a, WORTH_BROKEN) < a.n,
		"not every finding on this machine is broken");
	is_int(WORTH_GOOD, doctor_finding(&a, "kernel")->worth,
		"this machine's kernel is good");
	doctor_are_whole(&a, "this machine");
	find_files(&b, &m, "/dev/null");
	doctor_wants(&b, &folder, "a device");
	find_files(&c, &m, "/nonexistent");
	doctor_wants(&c, &missing, "nothing");
}

/* In a child, which keeps the filter. */
static void test_seccomp(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		_cleanup_findings_ struct findings f = {0};
		struct machine m;

		if (refuse_io_uring() < 0)
			_exit(2);
		m = this_machine();
		find_reading(&f, &m);
		_exit(doctor_finding(&f, "engine")->worth != WORTH_COSTS ||
			!(strstr(f.at[0].value, "a seccomp filter") ||
				strstr(f.at[0].value, "sysctl")));
	}
	if (waitpid(pid, &status, 0) < 0)
		bail("waitpid: %m");
	if (!WIFEXITED(status) || WEXITSTATUS(status) == 2)
		skip(1, "no seccomp filter can be set here");
	else
		is_int(0, WEXITSTATUS(status),
			"a filter is found to refuse io_uring");
}

int main(void)
{
	unsetenv("TARN_ENGINE");
	test_this_machine();
	test_seccomp();
	return done(8);
}
