/* SPDX-License-Identifier: MIT */
/* Where a test's memory cgroup is, for who makes it and for tests/run, which
 * removes what is left of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The folder of that name below our own group's, where the memory controller is
 * v1 or v2; false where there is none, or none that we may write. */
bool cgroup_of_test(bool v1, const char *id, char *ret, size_t size);
