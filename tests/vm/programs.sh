#!/bin/bash
# SPDX-License-Identifier: MIT
#
# programs.sh SCRIPT...: the programs of the build that these guests have, and
# what else they need: all others need not be built for them.
set -u

echo tests/run tests/vm/cut
for script; do
	[[ $script != */aarch64.sh ]] || continue # it builds its own
	programs=()
	# shellcheck disable=SC1090 # an array
	. <(awk '/^programs=\(/ { on = 1 } on; /\)$/ { on = 0 }' "$script")
	printf '%s\n' "${programs[@]}"
done | sort -u
