/* SPDX-License-Identifier: MIT */
/* Cases with a driver of their own. */
#include "tests/cuda/cases.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/error.h>

#include "base/fail.h"
#include "lib/cuda/cuda.h"
#include "tests/kit/tap.h"

static int failures;

bool check(bool holds, const char *what, ...)
{
	va_list ap;

	if (holds)
		return true;
	failures++;
	fputs("# does not hold: ", stdout);
	va_start(ap, what);
	vprintf(what, ap);
	va_end(ap);
	putchar('\n');
	return false;
}

bool check_failed(int wanted, const char *part, int r, const char *what)
{
	if (r == wanted && strstr(tarn_fail_message(), part))
		return true;
	return check(false, "%s: wanted %d and '%s', seen %d and '%s'", what,
		wanted, part, r, r < 0 ? tarn_fail_message() : "");
}

int check_result(void)
{
	return failures != 0;
}

int check_says(int r, const char *what)
{
	if (r >= 0)
		return 0;
	check(tarn_error_message()[0] != '\0', "%s: %d without a sentence",
		what, r);
	return 1;
}

int check_failures(void)
{
	return failures;
}

void case_set(const char *name, const char *value)
{
	char text[96];

	snprintf(text, sizeof(text), "FAKECUDA_%s", name);
	if (setenv(text, value, 1) < 0)
		bail("setenv: %m");
}

/* ---- the stand-in -------------------------------------------------------- */

static void *loaded(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	if (library)
		dlclose(library);
	return library;
}

/* NULL: the driver is not loaded. */
static void *symbol(const char *name)
{
	void *library = loaded(), *at;

	if (!library)
		return NULL;
	at = dlsym(library, name);
	if (!at)
		bail("libcuda.so.1 is not the stand-in: it has no %s", name);
	return at;
}

static uint64_t count(const char *name)
{
	uint64_t (*fn)(void) = NULL;

	*(void **)&fn = symbol(name);
	return fn ? fn() : 0;
}

uint64_t count_of(const char *name)
{
	uint64_t (*fn)(const char *name) = NULL;

	*(void **)&fn = symbol("fakecuda_count");
	return fn ? fn(name) : 0;
}

uint64_t count_calls(void)
{
	return count("fakecuda_calls");
}

uint64_t count_registrations(void)
{
	return count("fakecuda_registrations");
}

uint64_t count_bytes(void)
{
	return count("fakecuda_registered");
}

uint64_t count_waiting(void)
{
	return count("fakecuda_waiting");
}

/* The kernel's word for it. */
bool driver_is_loaded(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	bool found = false;
	char line[1024];

	if (!maps)
		bail("/proc/self/maps: %m");
	while (fgets(line, sizeof(line), maps))
		found = found || strstr(line, "/libcuda.so");
	fclose(maps);
	return found;
}

/* ---- running ------------------------------------------------------------- */

static void use_stand_in(void)
{
	const char *build = getenv("top_builddir"),
		   *before = getenv("LD_LIBRARY_PATH");
	char path[4096], *whole;

	if (!build)
		bail("top_builddir is not set: tests/run does");
	snprintf(path, sizeof(path), "%s/tests/fakecuda/.libs", build);
	whole = realpath(path, NULL);
	if (!whole)
		bail("%s: %m", path);
	snprintf(path, sizeof(path), "%s%s%s", whole, before ? ":" : "",
		before ? before : "");
	free(whole);
	if (setenv("LD_LIBRARY_PATH", path, 1) < 0)
		bail("setenv: %m");
}

static void become(const struct case_ *c)
{
	char name[64];

	for (int i = 0; i < SETTINGS_MAX && c->settings[i]; i++) {
		const char *s = c->settings[i], *value = strchr(s, '=') + 1;

		snprintf(name, sizeof(name), "%.*s", (int)(value - 1 - s), s);
		case_set(name, value);
	}
	execl("/proc/self/exe", "case", c->name, NULL);
	printf("# exec: %m\n");
	_exit(1);
}

static void run(const struct case_ *c)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		become(c);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		bail("%s: %m", c->name);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s (%s: status %#x)",
		c->what, c->name, status);
}

int cases_main(int argc, char **argv, const struct case_ *cases, int n)
{
	int count = 0;

	if (!cuda_is_built())
		skip_all("tarn was built without CUDA");
	for (int i = 0; argc > 1 && i < n; i++)
		if (!strcmp(cases[i].name, argv[1])) {
			cases[i].run();
			return check_result();
		}
	if (argc > 1)
		bail("there is no case %s", argv[1]);
	use_stand_in();
	for (int i = 0; i < n; i++)
		if (cases[i].what) {
			run(&cases[i]);
			count++;
		}
	return done(count);
}
