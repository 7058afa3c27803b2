#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The cost of a lease; see lease.c.
exec bench/lease
