#!/bin/bash
# SPDX-License-Identifier: MIT
#
# How the command is called, and what it says to those who call it wrongly:
# exit statuses, --help of each verb, suggestions, output that goes nowhere.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"

run "$TARN"
is 2 "$status" "no command is wrong usage"
is "" "$out" "without a command nothing is printed on stdout"
has "Usage: tarn COMMAND" "$err" \
	"without a command the usage is printed on stderr"
run "$TARN" --help
is 0 "$status" "--help is done"
verbs="channel check completion copy data doctor info load ls metrics migrate print put \
replicate rm save status stop top verify view wait"
is "$verbs" "$(sed -n 's/^  \([a-z]*\) .*/\1/p' <<<"$out" | paste -sd ' ')" \
	"help lists the commands in order"
run "$TARN" help
has "Usage: tarn COMMAND" "$out" "tarn help prints the usage"
run "$TARN" --version
is "0 tarn 0.1.0" "$status $out" "--version"

for verb in $verbs; do
	run "$TARN" "$verb" --help
	is "0 Usage: tarn $verb" "$status ${out:0:$((12 + ${#verb}))}" \
		"$verb --help"
	help=$out
	is "" "$(awk 'length > 80' <<<"$help")" "$verb: 80 columns are enough"
	run "$TARN" help "$verb"
	is "$help" "$out" "help $verb is the same"
	run "$TARN" "$verb" --flop
	is "2 tarn: $verb: there is no option --flop" \
		"$status $(head -n 1 <<<"$err")" "$verb --flop"
	has "'tarn $verb --help'" "$err" \
		"$verb with a wrong option refers to its help"
	run "$TARN" "$verb" -Z
	is "2 tarn: $verb: there is no option -Z" \
		"$status $(head -n 1 <<<"$err")" "$verb -Z"
done

for verb in info load print rm view; do
	run "$TARN" $verb
	is 2 "$status" "$verb without arguments is wrong usage"
	is "" "$out" "$verb without arguments prints nothing on stdout"
done
for line in "info a b" "load a b" "ls a b" "print a b c" "status a" "stop a" \
	"view a b c" "view --batch a"; do
	# shellcheck disable=SC2086 # words
	run "$TARN" $line
	is 2 "$status" "an argument too many: $line"
done

run "$TARN" channel
is "2 tarn: channel: an argument is needed: COMMAND [ARGUMENTS]" \
	"$status $(head -n 1 <<<"$err")" "a verb that has verbs"
run "$TARN" channel tial
is "2 tarn: channel: there is no command 'tial'" \
	"$status $(head -n 1 <<<"$err")" "one that it has not"
has "did you mean 'channel tail'?" "$err" \
	"a mistyped channel command gets a suggestion"
has "'tarn channel --help' lists the commands" "$err" \
	"a mistyped channel command refers to help"
for line in "ls a b" "stat" "stat a b" "tail" "tail a b" "top a b" "close" "rm"; do
	# shellcheck disable=SC2086 # words
	run "$TARN" channel $line
	is "2 tarn: channel ${line%% *}" \
		"$status $(head -n 1 <<<"$err" | cut -d : -f 1,2)" \
		"wrong arguments: channel $line"
done
for option in "stat a --watch 0" "top --every 1e9" "top --every nan" \
	"top --count 0" "tail a --count -1" "tail a --count 1x"; do
	# shellcheck disable=SC2086 # words
	run "$TARN" channel $option
	is 2 "$status" "wrong values: channel $option"
done
run "$TARN" channel stat a
is "1 tarn: no daemon is running" "$status $(head -n 1 <<<"$err")" \
	"channel stat fails where no daemon runs"
run "$TARN" channel ls
is "0  " "$status $out $err" "channel ls lists nothing where no daemon runs"

run "$TARN" lod
is "2 tarn: there is no command 'lod'" "$status $(head -n 1 <<<"$err")" \
	"an unknown command is refused"
has "did you mean 'load'?" "$err" "a mistyped verb gets a suggestion"
run "$TARN" stauts
has "did you mean 'status'?" "$err" "two swapped letters get a suggestion"
run "$TARN" help flop
is 2 "$status" "help on an unknown command is refused"
run "$TARN" version
is "0 tarn 0.1.0" "$status $out" "version prints the version"
run "$TARN" --socket x load f
has "'tarn load --socket ...'" "$err" "the error says where an option belongs"
run "$TARN" --flop status
is 2 "$status" "an option in front of the command is refused"
run "$TARN" load --nmae x
has "did you mean '--name'?" "$err" "a mistyped option gets a suggestion"
run "$TARN" load f --name
is "2 tarn: load: the option --name needs a value" \
	"$status $(head -n 1 <<<"$err")" \
		"an option without its value is refused"
run "$TARN" print x --raw=yes
is 2 "$status" "an option with an unexpected value is refused"
run "$TARN" ls --json -Zj
is "2 tarn: ls: there is no option -Z" "$status $(head -n 1 <<<"$err")" \
	"an unknown letter among others is refused"
run "$TARN" ls --json=x
is "2 tarn: ls: the option --json=x takes no value" \
	"$status $(head -n 1 <<<"$err")" \
		"a long option with a needless value is refused"
run "$TARN" ls --soc
is "2 tarn: ls: the option --soc needs a value" \
	"$status $(head -n 1 <<<"$err")" "an option may be shortened"
run "$TARN" st
has "did you mean 'channel stat' or 'status'?" "$err" \
	"a verb's beginning suggests verbs, but never 'stop'"
run "$TARN" tail
has "did you mean 'channel tail'?" "$err" \
	"a verb of channels without 'channel' gets a suggestion"
for word in stp sotp stopp stop\  rmm clos close channel\ close; do
	run "$TARN" "$word"
	is 2 "$status" "'$word' is no command"
	is "" "$(grep -E "'(stop|rm|channel (close|rm))'" <<<"${err#*$'\n'}")" \
		"no command that stops or removes is suggested for '$word'"
done
run "$TARN" channel rn
is "" "$(grep mean <<<"$err")" "no verb that removes a channel is suggested"
run "$TARN" $'l\e[31mo\x9bd\n'
is "tarn: there is no command 'l\\x1b[31mo\\x9bd\\x0a'" \
	"$(head -n 1 <<<"$err")" "the error shows the typed command escaped"

# Nobody to talk to, and not allowed to start one.
run "$TARN" status
is "1 tarn: no daemon is running" "$status $(head -n 1 <<<"$err")" \
	"status fails where no daemon runs"
has "'tarn load FILE' starts one" "$err" \
	"status without a daemon names a verb that starts one"
run "$TARN" status --socket "$TMPDIR/none"
is "1 tarn: no daemon is running at $TMPDIR/none" \
	"$status $(head -n 1 <<<"$err")" \
		"status --socket names the socket without a daemon"
run "$TARN" stop
is 1 "$status" "stop fails where no daemon runs"
run "$TARN" rm a
is 1 "$status" "rm fails where no daemon runs"
run "$TARN" ls
is "0  " "$status $out $err" "ls lists nothing where no daemon runs"
run "$TARN" ls --json
is '0 {"tensors":[]} ' "$status $out $err" \
	"ls --json lists nothing where no daemon runs"
run "$TARN" ls --socket "$TMPDIR/none"
is 1 "$status" "ls --socket fails where no daemon runs"
run "$TARN" info nothing
is 1 "$status" "info fails where no daemon runs"
run "$TARN" print nothing
is 1 "$status" "print fails where no daemon runs"
has "no daemon serves" "$err" "print reports that no daemon serves"

# Completion is made from the tables that --help is made from.
run "$TARN" completion csh
is 2 "$status" "completion refuses an unknown shell"
is "$verbs help version" "$(complete_line "")" "the verbs complete"
is "load ls" "$(complete_line l)" "a verb's beginning completes to its verbs"
is "close ls rm stat tail top --help" "$(complete_line channel "")" \
	"the verbs of channel complete"
for verb in $verbs channel\ {close,ls,rm,stat,tail,top} data\ {bench,cat,info}; do
	[ "$verb" = channel ] || [ "$verb" = data ] && continue
	# shellcheck disable=SC2086 # words
	is "$("$TARN" $verb --help | sed -nE \
		's/^  -., (--[a-z-]+).*/\1/p' | paste -sd ' ')" \
		"$(complete_line $verb --)" "the options of $verb complete"
done
touch "$TMPDIR/file"
has "$TMPDIR/file" "$(complete_line load "$TMPDIR/fi")" "files complete"

# What zsh's own functions would be given: words, and whether files are.
zsh_line() { # WORD...: the last one is being typed
	zsh -f -c 'path=(${TARN:h} $path)
		compdef() { }
		compadd() { print -r -- ${(M)@[2,-1]:#${words[CURRENT]}*} }
		_files() { print FILES }
		eval "$(tarn completion zsh)"
		words=(tarn "$@") CURRENT=$#words
		_tarn' complete "$@"
}
fish_line() { # WORD...: the last one is being typed
	HOME=$TMPDIR fish --no-config -c 'set -p PATH (path dirname $TARN)
		tarn completion fish | source
		complete -C "tarn $argv" | string replace -r "\t.*" ""' "$@" |
		sort | paste -sd ' '
}
sorted() { # WORD...
	tr ' ' '\n' <<<"$*" | sort | paste -sd ' '
}
options_of() { # VERB
	# shellcheck disable=SC2086 # words
	"$TARN" $1 --help | sed -nE 's/^  -., (--[a-z-]+).*/\1/p' | paste -sd ' '
}
if type zsh >/dev/null 2>&1; then
	is "$verbs help version" "$(zsh_line "")" "zsh: the verbs complete"
	is "close ls rm stat tail top --help" "$(zsh_line channel "")" \
		"zsh: the verbs of channel complete"
	for verb in $verbs channel\ {close,ls,rm,stat,tail,top} data\ {bench,cat,info}; do
		[ "$verb" = channel ] || [ "$verb" = data ] && continue
		# shellcheck disable=SC2086 # words
		is "$(options_of "$verb")" "$(zsh_line $verb --)" \
			"zsh: the options of $verb complete"
	done
	has FILES "$(zsh_line load "")" "zsh: files complete"
	is "" "$(zsh_line ls "" | grep FILES)" \
		"zsh: a verb without file arguments completes none"
	is "--help bash zsh fish" "$(zsh_line completion "")" \
		"zsh: the shells complete"
else
	skipped 1 "zsh completes the words of tarn: zsh is not installed"
fi
if type fish >/dev/null 2>&1; then
	is "$(sorted "$verbs" help version)" "$(fish_line "")" \
		"fish: the verbs complete"
	is "close ls rm stat tail top" "$(fish_line "channel ")" \
		"fish: so do the verbs of channel"
	is "$(sorted "$verbs")" "$(fish_line "help ")" "fish: and those to explain"
	for verb in $verbs channel\ {close,ls,rm,stat,tail,top} data\ {bench,cat,info}; do
		[ "$verb" = channel ] || [ "$verb" = data ] && continue
		is "$(sorted "$(options_of "$verb")")" "$(fish_line "$verb --")" \
			"fish: the options of $verb complete"
	done
	has "$TMPDIR/file" "$(fish_line "load $TMPDIR/fi")" \
		"fish: files complete"
	is "" "$(fish_line "ls $TMPDIR/fi")" "fish: not where there are none"
	is "bash fish zsh" "$(fish_line "completion ")" \
		"fish: the shells complete"
else
	skipped 1 "fish completes the words of tarn: fish is not installed"
fi
rm "$TMPDIR/file"

run bash -c '"$TARN" --help >/dev/full'
is "1 tarn: the output cannot be written: No space left on device" \
	"$status $err" "a full disk"
run bash -c '"$TARN" --help >&-'
is "1 tarn: the output cannot be written: Bad file descriptor" \
	"$status $err" "no output at all"
run bash -c 'trap "" PIPE; exec 3> >(:); wait $!; "$TARN" --help >&3; echo $?'
is "1 " "$out $err" "a reader that has gone is no news"
finish
