#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The cost of a snapshot for each name; see snapshot.c.
set -e
folder=$(mktemp -d)
# shellcheck source=bench/daemon.sh
. "$(dirname "$0")/daemon.sh"
start_daemon 2>/dev/null
bench/snapshot "$folder/sock"
