/* SPDX-License-Identifier: MIT */
/*
 * The verbs of the command. Each is called with argv[0] as its own name and
 * returns the exit status: 0 done, 1 failed, 2 called wrongly.
 */
#pragma once

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

int cmd_channel(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_completion(int argc, char **argv);
int cmd_copy(int argc, char **argv);
int cmd_data(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_load(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_metrics(int argc, char **argv);
int cmd_migrate(int argc, char **argv);
int cmd_print(int argc, char **argv);
int cmd_put(int argc, char **argv);
int cmd_replicate(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_save(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_stop(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_view(int argc, char **argv);
int cmd_wait(int argc, char **argv);
