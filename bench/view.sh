#!/bin/sh
# SPDX-License-Identifier: MIT
# What a view operation costs; run in the build folder.
exec ./bench/view
