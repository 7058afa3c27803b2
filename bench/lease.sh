#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What a lease costs; see lease.c.
exec bench/lease
