/* SPDX-License-Identifier: MIT */
/* The kernel, the processor, and how many clients there can be. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/doctor/doctor.h"

#define KERNEL_MAJOR 5 /* MADV_POPULATE_WRITE, memfd seals, close_range */
#define KERNEL_MINOR 14

/* daemon/keeper/clients.c: with fewer it does not start, and each client may
 * need eight. */
#define DESCRIPTORS_MIN 32u
#define DESCRIPTORS_PER_CLIENT 8u
#define DESCRIPTORS_FEW 4096u /* picked: a node's workers, some times over */

static void find_kernel(
	struct findings *findings, const struct machine *machine)
{
	const char *release = machine->uts.release;
	unsigned major, minor;

	if (sscanf(release, "%u.%u", &major, &minor) != 2) {
		found_unknown(findings, "system", "kernel",
			"'%s' is no version", release);
		return;
	}
	found(findings, "system", "kernel", "Linux %s", release);
	if (major < KERNEL_MAJOR ||
		(major == KERNEL_MAJOR && minor < KERNEL_MINOR))
		advise(&findings->at[findings->n - 1], WORTH_BROKEN,
			"The daemon uses system calls that this kernel does "
			"not have.",
			"boot Linux %d.%d or later", KERNEL_MAJOR,
			KERNEL_MINOR);
}

static void find_architecture(
	struct findings *findings, const struct machine *machine)
{
	const char *name = machine->uts.machine;
	struct finding *f =
		found(findings, "system", "architecture", "%s", name);

	if (strcmp(name, "x86_64") && strcmp(name, "aarch64"))
		advise(f, WORTH_BROKEN, "tarn is not tested on it.",
			"use x86_64 or aarch64");
}

static void find_descriptors(
	struct findings *findings, const struct machine *machine)
{
	static const char key[] = "descriptors";
	struct finding *f;
	uint64_t n;

	if (machine_limit(machine, "Max open files", &n) < 0) {
		found_unknown(findings, "system", key,
			"/proc/%s/limits cannot be read", machine->process);
		return;
	}
	f = found(findings, "system", key,
		"%" PRIu64 "%s, enough for %" PRIu64 " clients", n,
		machine_whose(machine), n / DESCRIPTORS_PER_CLIENT);
	if (n == UINT64_MAX)
		snprintf(f->value, sizeof(f->value), "no limit");
	if (n < DESCRIPTORS_MIN)
		advise(f, WORTH_BROKEN, "The daemon refuses to start.",
			"ulimit -Hn %u, or LimitNOFILE=%u in tarnd.service",
			DESCRIPTORS_FEW, DESCRIPTORS_FEW);
	else if (n < DESCRIPTORS_FEW)
		advise(f, WORTH_COSTS,
			"Further clients wait until others have left.",
			"ulimit -Hn %u, or LimitNOFILE=%u in tarnd.service",
			DESCRIPTORS_FEW, DESCRIPTORS_FEW);
}

void find_system(struct findings *findings, const struct machine *machine)
{
	find_kernel(findings, machine);
	find_architecture(findings, machine);
	find_descriptors(findings, machine);
}
