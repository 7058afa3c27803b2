#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The trust model is what tests prove: each promise of tarn-security(7) names
# at least one that is run, and words that are in it.

man=${top_srcdir:?set by tests/run}/man/tarn-security.7
mk=$(cat "$top_srcdir"/tests/local.mk "$top_srcdir"/tests/*/local.mk)
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

# What TESTS holds: lines joined, and variables replaced by their values.
run_tests() {
	sed -e ':join' -e '/\\$/{N;s/\\\n//;b join' -e '}' <<<"$mk" | awk '
		match($0, /^[A-Z_]+ *\+?= */) {
			name = $1
			rest = substr($0, RLENGTH + 1)
			value[name] = value[name] " " rest
		}
		function put(text, n, i, word) {
			n = split(text, word, " ")
			for (i = 1; i <= n; i++)
				if (word[i] ~ /^\$\([A-Z_]+\)$/)
					put(value[substr(word[i], 3,
						length(word[i]) - 3)])
				else
					print word[i]
		}
		END { put(value["TESTS"]) }' | sort -u
}

promises=$(awk '
	/^\.It/ { if (open) print line; open = 1; line = NR }
	/^\.\\" proof: / { open = 0 }
	/^\.(El|Sh)/ { if (open) print line; open = 0 }' "$man")
judge "every promise has a proof" "$promises"

tests=$(run_tests)
judge "the tests were found" "$(
	grep -qx tests/shm/wire <<<"$tests" || echo "no tests/shm/wire in: $tests"
)"

# The source of a test; its name has an ending only if it is a script.
source_of() {
	case $1 in
	*.sh | *.py) echo "$top_srcdir/$1" ;;
	*) echo "$top_srcdir/$1.c" ;;
	esac
}

wrong=
n=0
while read -r test words; do
	n=$((n + 1))
	words=${words#\"}
	words=${words%\"}
	file=$(source_of "$test")
	if ! grep -qx "$test" <<<"$tests"; then
		wrong+="$test is not run"$'\n'
	elif [ ! -f "$file" ]; then
		wrong+="$test is not there"$'\n'
	elif [ -z "$words" ] || ! tr -s '\n\t "*' ' ' <"$file" |
		grep -qF -- "$words"; then
		wrong+="$test does not say: $words"$'\n'
	fi
done < <(sed -n 's/^\.\\" proof: //p' "$man")
judge "each of $n proofs names a test that is run, and words of it" "$wrong"
judge "the page was read" "$([ "$n" -ge 20 ] || echo "$n proofs")"
echo "1..$count"
