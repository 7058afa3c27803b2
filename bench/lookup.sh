#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The cost of a look-up by name; see lookup.c.
exec bench/lookup
