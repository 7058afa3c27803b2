#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The protocol of leases, for every interleaving: tests/models/lease.pml.
. "${top_srcdir:?set by tests/run}/tests/kit/models.sh"

holds lease -DCRASHES=0 -DDEATHS=0
holds lease -DGENERATIONS=1 -DDEATHS=0
holds lease -DGENERATIONS=1 -DCRASHES=0
holds lease -DGENERATIONS=1 -DSTORAGES=2 -DOPS=1 -DCRASHES=0 -DDEATHS=0
holds lease -DCLIENTS=1 -DOPS=3 -DCRASHES=2

if long; then
	holds lease
	holds lease -DSTORAGES=2 -DOPS=1 -DGENERATIONS=1
fi
finish
