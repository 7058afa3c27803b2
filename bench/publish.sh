#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What publishing costs; see publish.c. A daemon of its own.

set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-publish.XXXXXX")
. "$(dirname "$0")/daemon.sh"
start_daemon
bench/publish "$folder/sock"
