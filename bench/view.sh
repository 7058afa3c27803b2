#!/bin/sh
# SPDX-License-Identifier: MIT
# The cost of a view operation; run in the build folder.
exec ./bench/view
