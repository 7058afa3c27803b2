#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What --help says and what the man pages say is the same, both ways: an
# option that only one of the two knows is wrong in one of them. Options that
# many verbs share are described once, and listed in each verb's synopsis. The
# commands that a page shows are those of a shell, and have options that the
# help knows.

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
	{
		section "$1" "$2" | sed -nE 's/^\.It Fl -?([a-z-]+).*/--\1/p'
		synopsis "$1" "$2" | grep -xF -f <(common "$1")
	} | options
}

common() { # PAGE
	section "$1" "Common options" |
		sed -nE 's/^\.It Fl -?([a-z-]+).*/--\1/p'
}

# The options that SYNOPSIS lists for a verb, or for "close | rm", for each.
synopsis() { # PAGE VERB
	section "$1" SYNOPSIS | awk -v want="$2" '
		/^\.Nm/ { verb = ""; on = 0 }
		/^\.Cm/ { verb = $2; on = verb == want }
		/^\.Ic/ { on = 0; for (i = 2; i <= NF; i++)
			if (verb " " $i == want) on = 1 }
		on && /^\.Op Fl -/ { print "-" $3 }
		on && /^\.Fl -/ { print "-" $2 }'
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
	[ "$verb" = view ] || [ "$verb" = channel ] || [ "$verb" = data ] ||
		judge "the synopsis of $verb has all of its options" 0 "$(diff \
			<(documented tarn.1 "$verb") \
			<(synopsis tarn.1 "$verb" | options))"
	compare "tarn $verb" tarn.1 "$verb" "$TARN" "$verb"
	judge "tarn --help knows $verb" 0 "$(
		"$TARN" --help | grep -qE "(^| )$verb( |\$)" || echo "no $verb"
	)"
done
# Verbs of a verb, "channel ls"; "close | rm" are two.
inner=$(section tarn.1 SYNOPSIS | awk '/^\.Cm/ { of = $2 }
	/^\.Ic/ { for (i = 2; i <= NF; i++) if ($i != "|") print of, $i }' |
	sort -u)
while read -r of verb; do
	compare "tarn $of $verb" tarn.1 "$of $verb" "$TARN" "$of" "$verb"
	judge "tarn help $of $verb is the same" 0 "$(diff \
		<("$TARN" "$of" "$verb" --help) \
		<("$TARN" help "$of" "$verb"))"
done <<<"$inner"
for of in $(cut -d ' ' -f 1 <<<"$inner" | sort -u); do
	judge "all of them are in tarn $of --help" 0 "$(diff \
		<(sed -n "s/^$of //p" <<<"$inner" | sort) \
		<("$TARN" "$of" --help | sed -nE 's/^  ([a-z]+) .*/\1/p' |
			sort))"
done
for page in "$man"/*.[1-8]; do
	judge "the foot of ${page##*/} names tarn, not an operating system" 0 \
		"$(grep -qx '\.Os tarn' "$page" || grep '^\.Os' "$page")"
done
# A help text that scrolls away shows its end first.
fits() { # COMMAND...
	"$@" --help | awk '{ if (length > 80) print } END { if (NR > 24) print NR }'
}
for verb in $verbs; do
	judge "tarn $verb --help fits on 24 lines of 80 columns" 0 \
		"$(fits "$TARN" "$verb")"
done
while read -r of verb; do
	judge "tarn $of $verb --help fits on 24 lines of 80 columns" 0 \
		"$(fits "$TARN" "$of" "$verb")"
done <<<"$inner"
judge "tarn --help and tarnd --help fit on 24 lines of 80 columns" 0 \
	"$(fits "$TARN")$(fits "$TARN_DAEMON")"
# What a page shows as it would be typed. A
# line of the log is not that, nor is a configuration (tests/daemon/conf.sh).
typed() { # PAGE
	awk '/^\.Ed/ { on = 0 }
		on && !/^tarnd\[/ { gsub(/\\e/, "\\"); print }
		/^\.Bd -literal -offset/ { on = 1 }' "$man/$1"
}
# The options that a line gives to a verb, and that its help does not have.
unknown() { # reads lines
	local verb line option
	grep -oE "(^|[ (])tarn ($(paste -sd '|' <<<"$verbs")) [^|&]*" |
		while read -r _ verb line; do
			! grep -q "^$verb " <<<"$inner" || verb+=" ${line%% *}"
			for option in $(options <<<"$line"); do
				# shellcheck disable=SC2086 # two words, perhaps
				"$TARN" $verb --help | options |
					grep -qxF -e "$option" ||
					echo "tarn $verb has no $option"
			done
		done
}
for page in tarn.1 tarn-doctor.1 tarnd.8; do
	typed "$page" >"$TMPDIR/typed"
	judge "the commands in $page are a shell's" 0 "$(
		[ -s "$TMPDIR/typed" ] || echo "there are none"
		bash -n "$TMPDIR/typed" 2>&1
	)"
	judge "the commands in $page have the options that they show" 0 \
		"$(sed -z 's/\\\n//g' "$TMPDIR/typed" | unknown)"
done
rm -f "$TMPDIR/typed"
judge "the man page was read" 0 "$(
	grep -qx load <<<"$verbs" || echo "no load in: $verbs"
)"
echo "1..$count"
