/* SPDX-License-Identifier: MIT */
/*
 * A process often gets a signal twice: timeout(1) sends it to the command and
 * then to the command's group, and so does a shell script's trap. So a signal
 * right after the first one counts as the same; a later one, from a user that
 * does not want to wait, ends the process at once.
 */
#pragma once

#include <stdbool.h>

/* In a handler, before anything else: is it the first? If it is the second, it
 * ends the process when the handler has returned. */
bool ending_is_first(int signal);

/* Ends the process by that signal, as if there had been no handler. */
void ending_by(int signal);
