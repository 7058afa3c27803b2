#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The cost of a transfer through a ring; see ring.c.
exec bench/ring
