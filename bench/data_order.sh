#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The cost of a position in a shuffled order; see data_order.c.
exec bench/data_order
