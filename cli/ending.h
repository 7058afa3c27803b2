/* SPDX-License-Identifier: MIT */
/*
 * Who is told to end is often told twice: timeout(1) sends its signal to the
 * command and then to the command's group, a shell script's trap the same. So
 * what comes right after the first signal is the first once more; a second one
 * by somebody who waits no longer ends the process at once.
 */
#pragma once

#include <stdbool.h>

/* In a handler, before anything else: is it the first? If it is the second, it
 * ends the process when the handler has returned. */
bool ending_is_first(int signal);

/* Ends the process by that signal, as if there had been no handler. */
void ending_by(int signal);
