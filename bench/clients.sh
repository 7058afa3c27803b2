#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What a thousand clients cost; see clients.c. A daemon of its own.

set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-clients.XXXXXX")
. "$(dirname "$0")/daemon.sh"
start_daemon
bench/clients "$folder/sock"
