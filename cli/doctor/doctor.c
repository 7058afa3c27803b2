/* SPDX-License-Identifier: MIT */
/* tarn doctor: looks at everything, prints it, and ends with 1 if there is
 * advice. */
#include "cli/doctor/doctor.h"

#include "base/memory_policy.h"
#include "base/shmem_huge.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/options.h"

static void look(const char *socket, char **paths, struct findings *findings)
{
	struct machine machine = {.root = "",
		.process = "self",
		.places_memory = memory_policy_works(),
		.collapses = shmem_collapses()};

	uname(&machine.uts);
	engine_ask(&machine.engine);
	cuda_ask(&machine.cuda);
	find_daemon(findings, &machine, socket);
	find_system(findings, &machine);
	find_reading(findings, &machine);
	find_memory(findings, &machine);
	find_pages(findings, &machine);
	find_nodes(findings, &machine);
	find_gpu(findings, &machine);
	for (; *paths; paths++)
		find_files(findings, &machine, *paths);
}

int cmd_doctor(int argc, char **argv)
{
	_cleanup_findings_ struct findings findings = {0};
	const char *socket = NULL;
	bool json = false;
	const struct option_row rows[] = {
		OPTION_JSON(&json), OPTION_SOCKET(&socket), {0}};
	const struct usage usage = {.verb = "doctor",
		.arguments = "[OPTION]... [FILE|FOLDER]...",
		.about = "Looks at what this machine offers to tarn, and at "
			 "the file systems of the paths.\nSays what each thing "
			 "costs, and what changes it. Starts no daemon.\n"
			 "The exit status is 1 if something costs or is "
			 "broken.",
		.options = rows,
		.args_max = -1};
	char **paths;
	int n, r;

	r = options_parse(&usage, argc, argv, &n, &paths);
	if (r != OPTIONS_DONE)
		return r;
	look(socket, paths, &findings);
	r = EXIT_DONE;
	if (json)
		r = json_print(findings_json(&findings));
	else
		findings_print(&findings);
	if (findings_count(&findings, WORTH_COSTS) +
		findings_count(&findings, WORTH_BROKEN))
		r = EXIT_FAILED;
	return r;
}
