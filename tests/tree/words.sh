#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Words rot where nothing runs them: licence lines, package lists, the
# examples in the README and the man page, scripts' syntax.

cd "${top_srcdir:?set by tests/run}" || exit 1
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

rooms=()
for room in .ci base bench cli daemon examples lib man mpi python scripts shm \
	tests; do
	[ ! -d $room ] || rooms+=("$room")
done

judge "every source file says its licence in its first lines" "$(
	find "${rooms[@]}" bootstrap configure.ac Makefile.am m4/tarn.m4 \
		-type f \( -path '.ci/*' -o -name '*.[ch]' -o -name '*.sh' \
		-o -name '*.py' -o -name '*.[13578]' -o -name '*.m4' \
		-o -path 'scripts/*' -o ! -path '*/*' \) \
		-exec head -v -n 3 {} + | awk '
		function end() { if (file != "" && !said) print file }
		/^==> .* <==$/ { end(); file = $2; said = 0 }
		/SPDX-License-Identifier: MIT/ { said = 1 }
		END { end() }'
)"

# "install libfoo-dev" in configure's words is a package of bootstrap's list.
wanted=$(cat configure.ac m4/tarn.m4 | tr '\n' ' ' |
	grep -oE 'install [a-z0-9-]+|\[lib[a-z0-9-]+-dev\]' |
	grep -oE '[a-z0-9-]+-[a-z0-9-]+' | sort -u)
judge "configure's advice was found" "$(
	echo "$wanted" | grep -q liburing-dev || echo "no liburing-dev in: $wanted"
)"
judge "bootstrap installs what configure advises" "$(
	listed=$(sed -n '/^[a-z_]*packages=(/,/)/p' bootstrap |
		grep -oE '[a-z0-9-]+')
	for package in $wanted; do
		grep -qx -- "$package" <<<"$listed" || echo "$package"
	done
)"

# One fact has one home: an example is the file that is compiled.
example() { # FILE: what follows its first comment
	sed '1,/^ \*\/$/d' "$1" | sed '1{/^$/d}'
}

file=quickstart
judge "the README's example is examples/$file.c" "$(
	# The block that is called so in the line below it.
	diff <(awk -v called="^This is .examples/$file\\\\.c" '
		/^```c$/ { block = ""; on = 1; next }
		/^```$/ { on = 0; next }
		on { block = block $0 "\n" }
		$0 ~ called { printf "%s", block; exit }
	' README.md) <(example "examples/$file.c")
)"
for file in quickstart publish follow; do
	judge "the example in tarn(7) is examples/$file.c" "$(
		diff <(sed -n "/^\\.\\\\\" examples\\/$file\\.c\$/,/^\\.Ed\$/p" \
			man/tarn.7 |
			sed '1,2d;$d; s/\\e/\\/g; s/\\-/-/g') \
			<(example "examples/$file.c")
	)"
done

# Lines of a file that stand together, whatever their indentation.
lines() { # FILE NTH: the README's Nth block of C on channels, or all of FILE
	if [ "$2" ]; then
		awk -v nth="$2" '/^##/ { there = $0 == "### Channels" }
			/^```c$/ && there { on = ++n == nth; next }
			/^```$/ { on = 0 }
			on' "$1"
	else
		cat "$1"
	fi | sed 's/^[ \t]*//'
}

for nth in 1 2; do
	file=examples/$(sed "${nth}q;d" <<<$'producer.c\nconsumer.c')
	part=$(lines README.md $nth)
	judge "the README's lines on channels are of $file" "$(
		[ "$(wc -l <<<"$part")" -ge 4 ] || echo "too few: $part"
		[[ $(lines "$file" "") == *"$part"* ]] || echo "$part"
	)"
done

judge "the pages of man/ are all installed" "$(
	for page in man/*.[13578]; do
		grep -q "$page" man/local.mk || echo "$page"
	done
)"

# One name for each concept: what a word was replaced by, see doc/glossary.md.
retired() { # WORDS SCOPE...
	local words=$1
	shift
	find "$@" -type f \( -name '*.[ch]' -o -name '*.pml' -o -name '*.mk' \) \
		-exec grep -nHiE "(^|[^a-z])($words)([^a-z]|\$)" {} +
}

judge "no retired name is in use" "$(
	retired 'heirs?|riders?|movers?|givable|lodged|crosswise|deaf|bury' \
		base shm lib daemon cli
	retired 'kept_table|msg_keep|road_(at|init|fs|way)|door_[a-z_]+' \
		base shm lib daemon cli tests
	retired 'private_map|brief_lock|tarn_is_alone|large_alloc|eight_at' \
		base shm lib daemon cli tests
	retired 'struct rule|keeper_rule|msg_rule|room_(make|give)' \
		base shm lib daemon cli tests
)"
# Sockets send and receive, functions report, and processes are "it".
judge "no word of the old dialect is in use" "$(
	retired 'hears?|heard|himself|herself|truly|thereof|rung' \
		base shm lib daemon cli python
	retired 'ring_hear|die_as_told|say_error|tell_(one|bytes|finished)' \
		base shm lib daemon cli
	retired 'truly|thereof|ring_hear' tests
)"
# Clients, users and readers are "it", too, or have a name.
judge "no process, client or user is called he" "$(
	find "${rooms[@]}" bootstrap -type f \( -name '*.[ch]' -o -name '*.sh' \
		-o -name '*.py' -o -name '*.pml' -o -name '*.mk' \
		-o -name '*.[13578]' -o -path '.ci/run' -o -path 'scripts/*' \
		-o -name bootstrap \) ! -path tests/tree/words.sh -exec grep \
		-nHiE '(^|[^a-z-])(s?he|his|him|hers?|(him|her)self)([^a-z]|$)' {} +
)"
# A sentence begins with its actor, which has a name: "a client that", not "who".
judge "no comment begins with Who or Whoever" "$(
	grep -rnE --include=*.[ch] --include=*.py --include=*.sh \
		'(/\*|^[[:space:]]*\*|\.|#) ?Who(ever)? ' "${rooms[@]}" |
		grep -v '^tests/tree/words.sh:'
	retired 'who does|whoever' base shm lib daemon cli python
)"
# A result line is read alone, in a log: it begins with no "and" and no "which".
judge "result lines are sentences by themselves" "$(
	grep -rnE --include=*.[ch] --include=*.py --include=*.sh \
		'"(which is said|and is told|is told|[^"]*in peace|truly)"' \
		tests | grep -v '^tests/tree/words.sh:'
	grep -rnE --include=*.c ', "(and|nor|which|so) [^"]*"\);$' tests
	grep -rnE --include=*.sh '[[:space:]]"(and|nor|which|so) [^"]*"$' tests
)"

shells=$(grep -lE '^#!.*\b(ba)?sh$' bootstrap .ci/* scripts/* tests/*/*.sh \
	bench/*.sh 2>/dev/null)
judge "every script parses" "$(
	for script in $shells; do
		bash -n "$script" 2>&1
	done
)"
if command -v shellcheck >/dev/null; then
	# shellcheck disable=SC2086 # no spaces in our names
	judge "shellcheck has nothing to say" "$(shellcheck -S warning -f gcc $shells)"
else
	count=$((count + 1))
	echo "ok $count # SKIP there is no shellcheck"
fi

echo "1..$count"
