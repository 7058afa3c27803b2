#!/bin/bash
# SPDX-License-Identifier: MIT
#
# All C is formatted as .clang-format has it: scripts/format does it.

cd "${top_srcdir:?set by tests/run}" || exit 1
what="scripts/format would change no file"

wrong=$(scripts/format --check 2>&1)
case $? in
0) echo "ok 1 - $what" ;;
77) echo "ok 1 # SKIP ${wrong#*: }" ;;
*)
	echo "not ok 1 - $what"
	printf '%s\n' "$wrong" | sed 's/^/# seen: /'
	;;
esac
echo "1..1"
