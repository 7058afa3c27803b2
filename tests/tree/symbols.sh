#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What libtarn.so exports is what the public headers declare, no less (a
# program that links would not), no more (what leaks out must be kept for
# ever).

library=${top_builddir:?set by tests/run}/lib/.libs/libtarn.so
include=${top_srcdir:?set by tests/run}/lib/include/tarn
declared=$TMPDIR/declared
exported=$TMPDIR/exported

# The name is what stands before the first bracket of a declaration.
grep -hv "^#" "$include"/*.h | tr '\n\t' '  ' | grep -oE 'TARN_PUBLIC [^;({]*\(' |
	sed -E 's/.*[ *](tarn_[a-z0-9_]+) *\($/\1/' | sort -u >"$declared"
# A sanitizer adds names of its own to every object.
nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' |
	sed 's/@.*//' | grep -v '^__odr_asan' | sort -u >"$exported"

echo 1..4
if [ "$(wc -l <"$declared")" -gt 50 ]; then
	echo "ok 1 - the headers were read"
else
	echo "not ok 1 - the headers were read: $(wc -l <"$declared") names"
fi
judge() { # NUMBER WHAT SEEN
	if [ -z "$3" ]; then
		echo "ok $1 - $2"
	else
		echo "not ok $1 - $2"
		echo "$3" | sed 's/^/# seen: /'
	fi
}
judge 2 "every declared name is exported" \
	"$(comm -23 "$declared" "$exported")"
judge 3 "every exported name is declared" \
	"$(comm -13 "$declared" "$exported")"
# A public function that the command had from the parts of the library that it
# links itself would have errors, and stores, of its own.
judge 4 "the command defines none of them" "$(
	nm --defined-only "$top_builddir/cli/.libs/tarn" | awk '{ print $3 }' |
		sort | comm -12 - "$exported"
)"
rm -f "$declared" "$exported"
