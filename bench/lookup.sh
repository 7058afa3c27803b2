#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What a look-up by name costs; see lookup.c.
exec bench/lookup
