#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The queue of descriptors to be closed: tests/models/closer.pml, whole and with
# something left out.
. "${top_srcdir:?set by tests/run}/tests/kit/models.sh"

holds closer
holds closer -DCLOSERS=3 -DFDS=2
holds closer -DFDS=5 -DSIZE=3

beyond='t<put'     # what nobody has put is taken
other='fd==t'      # another descriptor is closed
lost='taken==put'  # all sleep beside one

broken "$beyond" closer -DTAKEN_RELAXED
broken "$beyond" closer -DFAILED_RELAXED
broken "$other" closer -DPUT_FIRST
broken "$other" closer -DSLOT_AFTER
broken "$lost" closer -DSLEEP_ANYHOW

finish
