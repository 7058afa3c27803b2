/* SPDX-License-Identifier: MIT */
/*
 * The verbs of the command. Each is called with argv[0] as its own name and
 * returns the exit status: 0 done, 1 failed, 2 called wrongly.
 */
#pragma once

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

int cmd_view(int argc, char **argv);
