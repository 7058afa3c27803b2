/* SPDX-License-Identifier: MIT */
#pragma once

#include "python/ops/ops.h"

/* a @ b; out: NULL, or where the result goes. */
PyObject *matmul_operator(PyObject *a, PyObject *b, PyObject *out);
