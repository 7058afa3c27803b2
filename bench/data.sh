#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Datasets: opening, memory, planning and reading; see data.c.
set -e
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-XXXXXX")
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
bench/data "$folder"
