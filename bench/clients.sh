#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The cost of a thousand clients; see clients.c. With its own daemon.

set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-clients.XXXXXX")
. "$(dirname "$0")/daemon.sh"
start_daemon
bench/clients "$folder/sock"
