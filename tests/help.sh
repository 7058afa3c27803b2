#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What --help says and what the man pages say is the same, both ways: an
# option that only one of the two knows is wrong in one of them.

man=${top_srcdir:?set by tests/run}/man
count=0

judge() { # WHAT STATUS SEEN
	count=$((count + 1))
	if [ "$2" -eq 0 ] && [ -z "$3" ]; then
		echo "ok $count - $1"
	else
		echo "not ok $count - $1 (status $2)"
		printf '%s\n' "$3" | sed 's/^/# seen: /'
	fi
}

# --help and --version are everybody's, and said once.
options() {
	grep -oE -- '--[a-z][a-z-]*' | grep -vxE -- '--(help|version)' | sort -u
}

section() { # PAGE HEADING: its lines
	awk -v want="$2" '/^\.S[sh] / { on = substr($0, 5) == want } on' \
		"$man/$1"
}

documented() { # PAGE HEADING
	section "$1" "$2" | sed -nE 's/^\.It Fl -?([a-z-]+).*/--\1/p' | options
}

compare() { # WHAT PAGE HEADING COMMAND...
	local what=$1 page=$2 heading=$3 help r
	shift 3

	help=$("$@" --help 2>&1)
	r=$?
	judge "$what --help and $page agree" "$r" "$(diff \
		<(options <<<"$help") <(documented "$page" "$heading"))"
}

: "${TARN:?set by tests/run}" "${TARN_DAEMON:?set by tests/run}"
compare tarnd tarnd.8 Options "$TARN_DAEMON"
verbs=$(section tarn.1 SYNOPSIS | sed -n 's/^\.Cm //p' | sort -u)
for verb in $verbs; do
	compare "tarn $verb" tarn.1 "$verb" "$TARN" "$verb"
	judge "tarn --help knows $verb" 0 "$(
		"$TARN" --help | grep -qE "(^| )$verb( |\$)" || echo "no $verb"
	)"
done
# Verbs of a verb: "close | rm" are two.
inner=$(section tarn.1 SYNOPSIS | sed -n 's/^\.Ic //p' | tr -d '|' | sort -u)
for verb in $inner; do
	compare "tarn channel $verb" tarn.1 "channel $verb" "$TARN" channel \
		"$verb"
	judge "tarn help channel $verb is the same" 0 "$(diff \
		<("$TARN" channel "$verb" --help) \
		<("$TARN" help channel "$verb"))"
done
judge "all of them are in tarn channel --help" 0 "$(diff \
	<(tr ' ' '\n' <<<"$inner" | grep . | sort) \
	<("$TARN" channel --help | sed -nE 's/^  ([a-z]+) .*/\1/p' | sort))"
judge "the man page was read" 0 "$(
	grep -qx load <<<"$verbs" || echo "no load in: $verbs"
)"
echo "1..$count"
