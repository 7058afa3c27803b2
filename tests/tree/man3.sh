#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Section 3 is made from the headers' comments: each public function has a page
# that shows its prototype, what a page refers to is there, and a formatter
# finds no error in any.

pages=${top_builddir:?set by tests/run}/man/man3
include=${top_srcdir:?set by tests/run}/lib/include/tarn
count=0

judge() { # WHAT SEEN: empty is right
	count=$((count + 1))
	if [ -z "$2" ]; then
		echo "ok $count - $1"
	else
		echo "not ok $count - $1"
		printf '%s\n' "$2" | sed 's/^/# seen: /'
	fi
}

functions=$(grep -hv "^#" "$include"/*.h | tr '\n\t' '  ' |
	grep -oE 'TARN_PUBLIC [^;({]*\(' |
	sed -E 's/.*[ *](tarn_[a-z0-9_]+) *\($/\1/' | sort -u)
judge "the headers were read" \
	"$([ "$(wc -l <<<"$functions")" -gt 50 ] || echo "few functions")"

without=
for function in $functions; do
	page=$pages/$function.3
	first=$(sed -n 's,^\.so man3/,,p' "$page" 2>/dev/null)
	[ -z "$first" ] || page=$pages/$first
	grep -qx "\.Fo $function" "$page" 2>/dev/null || without+=" $function"
done
judge "each function has a page with its prototype" "$without"

missing=$(sed -nE 's/^\.Xr ([^ ]+) 3.*/\1/p' "$pages"/*.3 | sort -u |
	while read -r name; do
		[ -f "$pages/$name.3" ] || echo "$name"
	done)
judge "each page of section 3 that is referred to is there" "$missing"

empty=$(awk '
	FNR == 1 && described && !n { print page }
	FNR == 1 { page = FILENAME; described = n = 0 }
	/^\.Sh/ { inside = /DESCRIPTION/; described = described || inside }
	inside && !/^\./ { n++ }
	END { if (described && !n) print page }' "$pages"/*.3)
judge "each description has words" "$empty"

if command -v mandoc >/dev/null; then
	judge "mandoc finds no error in them" \
		"$(cd "$pages/.." && mandoc -T lint -W error man3/*.3 2>&1)"
else
	count=$((count + 1))
	echo "ok $count - mandoc finds no error in them # SKIP needs mandoc"
fi
echo "1..$count"
