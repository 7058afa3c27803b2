/* SPDX-License-Identifier: MIT */
/*
 * A service manager's socket and notifications, by the environment that it
 * sets: sd_listen_fds(3) and sd_notify(3), without a library. Without a manager
 * these functions do nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The listening socket that was passed, close-on-exec and non-blocking: 1.
 * 0: none was. It must be bound to the path of --socket: else -EINVAL. */
int systemd_socket(const char *path, int *ret_fd);

/* "READY=1", "STOPPING=1": a line for the manager. */
void systemd_notify(const char *state);
/* It is about to read its configuration again; READY=1 ends that. */
void systemd_notify_reloading(uint64_t now_ns);
