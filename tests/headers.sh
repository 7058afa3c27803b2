#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Each public header must stand alone: a program that includes just one of
# them, first and nothing else, compiles as strict C17 and as C++17. A header
# that leans on its neighbour breaks for the user who sorts includes.

include=${top_srcdir:?set by tests/run}/lib/include
out=$TMPDIR/out
export CCACHE_DISABLE=1 # it would leave files of its own here
count=0

# A compiler that is not there is a skip; one that is there must agree.
try() { # WHAT HEADER COMPILER FLAG...
	local what=$1 header=$2
	shift 2

	count=$((count + 1))
	if ! command -v "$1" >/dev/null; then
		echo "ok $count # SKIP $header as $what: there is no $1"
	elif echo "#include <tarn/$header>" | "$@" -Wall -Wextra -Werror \
		-pedantic-errors -fsyntax-only -I"$include" - >"$out" 2>&1; then
		echo "ok $count - $header as $what"
	else
		echo "not ok $count - $header as $what"
		sed 's/^/# /' "$out"
	fi
}

read -ra cc <<<"${CC:-cc}"
read -ra cxx <<<"${CXX:-g++}"
for path in "$include"/tarn/*.h; do
	try C17 "${path##*/}" "${cc[@]}" -std=c17 -x c
	try C++17 "${path##*/}" "${cxx[@]}" -std=c++17 -x c++
done
rm -f "$out"
echo "1..$count"
