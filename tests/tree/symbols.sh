#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What libtarn.so, libtarnops.so and libtarn-mpi.so export is what their public
# headers declare, no less (a program that links would not), no more (what leaks
# out must be kept for ever).

declared=$TMPDIR/declared
exported=$TMPDIR/exported
count=0

judge() { # WHAT SEEN: nothing seen is good
	count=$((count + 1))
	if [ -z "$2" ]; then
		echo "ok $count - $1"
	else
		echo "not ok $count - $1"
		echo "$2" | sed 's/^/# seen: /'
	fi
}

compare() { # LIBRARY HEADERS LEAST
	# The name is what stands before the first bracket of a declaration.
	grep -hv "^#" "$2"/*.h | tr '\n\t' '  ' |
		grep -oE 'TARN_PUBLIC [^;({]*\(' |
		sed -E 's/.*[ *](tarn_[a-z0-9_]+) *\($/\1/' | sort -u >"$declared"
	# A sanitizer adds names of its own to every object.
	nm -D --defined-only "$1" | awk '$2 != "A" { print $3 }' |
		sed 's/@.*//' | grep -v '^__odr_asan' | sort -u >"$exported"
	judge "the headers of ${1##*/} were read" "$(
		n=$(wc -l <"$declared")
		[ "$n" -ge "$3" ] || echo "$n names"
	)"
	judge "every name that the headers of ${1##*/} declare is exported" \
		"$(comm -23 "$declared" "$exported")"
	judge "every name that ${1##*/} exports is declared" \
		"$(comm -13 "$declared" "$exported")"
}

operations=${top_builddir:?set by tests/run}/ops/.libs/libtarnops.so
if [ -e "$operations" ]; then
	compare "$operations" "${top_srcdir:?set by tests/run}/ops/include/tarn" 5
else
	count=$((count + 1))
	echo "ok $count - libtarnops # SKIP it was not built: there is no BLAS"
fi
ranks=$top_builddir/mpi/.libs/libtarn-mpi.so
if [ -e "$ranks" ]; then
	compare "$ranks" "$top_srcdir/mpi/include/tarn" 4
else
	count=$((count + 1))
	echo "ok $count - libtarn-mpi # SKIP it was not built: there is no MPI"
fi
compare "$top_builddir/lib/.libs/libtarn.so" "$top_srcdir/lib/include/tarn" 50
# A public function that the command had from the parts of the library that it
# links itself would have errors, and stores, of its own.
judge "the command defines none of them" "$(
	nm --defined-only "$top_builddir/cli/.libs/tarn" | awk '{ print $3 }' |
		sort | comm -12 - "$exported"
)"
rm -f "$declared" "$exported"
echo "1..$count"
