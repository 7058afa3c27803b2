#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What a hand-off through a ring costs; see ring.c.
exec bench/ring
