#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tarnd.conf: what it may say, and how it is told that it says nonsense. Each
# error names the line and what would be right; no daemon is needed for that.

: "${TARN_DAEMON:?set by tests/run}"
count=0
mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1
conf=$PWD/tarnd.conf

judge() { # WHAT STATUS: 0 is good
	count=$((count + 1))
	if [ "$2" -eq 0 ]; then
		echo "ok $count - $1"
	else
		echo "not ok $count - $1"
		sed 's/^/# seen: /' seen
	fi
}

check() { # TEXT: its status; what it says is in the file seen
	printf '%s\n' "$1" >"$conf"
	"$TARN_DAEMON" --config "$conf" --check-config --socket /s >seen 2>&1
}

refuses() { # LINE WORDS TEXT
	check "$3"
	[ $? -eq 2 ] && [ "$(wc -l <seen)" -eq 1 ] &&
		grep -qF "tarnd: $conf:$1: " seen && grep -qF "$2" seen
	judge "line $1: $2" $?
}

are_printed() { # LINE...: each is in what was seen
	local line
	for line; do
		grep -qxF "$line" seen || return 1
	done
}

check '# nothing
'
judge "an empty file is a configuration" $?
are_printed '[daemon]' 'segment-size = 256M' 'node = auto' 'register = no' 'idle = 600' '[quota]' 'loads = 256'
judge "the defaults are said" $?

check '[daemon]
budget = 3G
idle=7
node = interleave
mode = 0660
[pool scratch]
[pool team.a-b_1]
size = 64M
segment-size = 8M
node = 1
owner = 1234
group = 5678
mode = 0640
; a comment
[pool huge]
pages = 1g
node = local
[pool thp]
pages = THP
[quota]
loads = 5
[quota 1234]
bytes = 1536M ; and another
'
judge "a whole configuration is one" $?
are_printed 'budget = 3G' 'idle = 7' 'mode = 0660' '[pool scratch]' \
	'[pool team.a-b_1]' 'size = 64M' 'segment-size = 8M' 'owner = 1234' \
	'group = 5678' 'mode = 0640' 'pages = 1g' 'segment-size = 1G' \
	'pages = thp' 'pages = auto' 'node = 1' 'node = local' \
	'loads = 5' '[quota 1234]' 'bytes = 1536M' 'mode = 0600'
judge "it is understood" $?
cp seen first
check "$(cat first)" && diff first seen >difference
judge "what is said can be read again, and means the same" $?
check '[daemon]
register = yes
[pool as-all]
[pool sealed]
register = no'
judge "a pool says whether it can be registered" $?
[ "$(grep -xF 'register = yes' seen | wc -l)" -eq 2 ] &&
	[ "$(grep -xF 'register = no' seen | wc -l)" -eq 1 ]
judge "pools that do not say are as the daemon says" $?
check '[pool x]
register = yes'
[ "$(grep -xF 'register = yes' seen | wc -l)" -eq 1 ] && grep -qx 'register = no' seen
judge "one pool alone can be registered" $?
"$TARN_DAEMON" --config "$conf" --register --check-config >seen 2>&1 &&
	[ "$(grep -xF 'register = yes' seen | wc -l)" -eq 2 ]
judge "the option makes all of them so" $?
refuses 2 'register must be yes or no' '[daemon]
register = 1'
refuses 2 'register must be yes or no' '[pool x]
register = Yes'
cp first "$conf"
"$TARN_DAEMON" --config "$conf" --idle 9 --check-config >seen 2>&1
are_printed 'idle = 9' 'budget = 3G'
judge "an option wins" $?

refuses 1 'there are [daemon], [pool NAME], [quota] and [quota USER]' '[pol x]'
refuses 2 'there are [daemon], [pool NAME]' '
[pool x y]'
refuses 1 'such as [daemon]' 'idle = 3'
refuses 1 'neither [section] nor key' 'idle'
refuses 2 'without its ]' '
[daemon'
refuses 3 'must not begin with a blank' '[daemon]
idle = 3
  mode = 0600'
refuses 3 'idle is said twice' '[daemon]
idle = 3
idle = 3'
refuses 2 'but: socket, budget, segment-size, node, register, idle, mode' '[daemon]
size = 3'
refuses 2 'but: size, pages' '[pool x]
idle = 3'
refuses 2 'but: bytes, storages' '[quota]
idle = 3'
refuses 2 'is no size' '[daemon]
budget = many'
refuses 2 'is no size' '[daemon]
budget = 99999999999999999999'
refuses 2 'multiple of 2M' '[daemon]
segment-size = 3M
'
refuses 2 'mode must be 0600' '[daemon]
mode = 0177'
refuses 2 'mode must be 0600' '[daemon]
mode = 0644'
# A daemon may run as that uid, and has a pool of its own then.
if [ "$(id -u)" -eq 65534 ]; then
	count=$((count + 1))
	echo "ok $count # SKIP the overflow uid is refused to other users"
else
	refuses 2 'overflow uid' '[pool x]
owner = 65534'
fi
refuses 2 '2M at least' '[pool x]
size = 1K'
refuses 2 'auto, 4k, 2m, 1g or thp' '[pool x]
pages = 64k'
refuses 2 'write pages = 2M' '[pool x]
page-size = 2M'
refuses 2 'node must be auto, local, interleave, or the number' '[pool x]
node = near'
refuses 2 'a NUMA node below 64: 64' '[daemon]
node = 64'
refuses 2 'with r' '[pool x]
mode = 0620'
refuses 2 "no user 'nobody-at-all'" '[pool x]
owner = nobody-at-all'
refuses 2 "no group 'nobody-at-all'" '[pool x]
group = nobody-at-all'
refuses 2 'multiples of its pages' '
[pool x]
pages = 1g
segment-size = 256M'
refuses 2 'is there already' '[pool x]
[pool x]'
refuses 1 'letters, digits' '[pool a/b]'
refuses 1 'letters, digits' "[pool $(printf 'x%.0s' {1..33})]"
refuses 2 'must be a number' '[quota]
loads = -1'
refuses 1 'no user' '[quota nobody-at-all]'
refuses 2 'a line of more than' "[daemon]
; $(printf 'x%.0s' {1..300})"

# What tarnd.conf(5) and the README show; its users need not be on this machine.
shown() { # WHERE TEXT
	check "$(sed 's/\<train\>/1234/; s/\<vision\>/5678/' <<<"$2")"
	local status=$?
	[ "$status" -eq 0 ] && are_printed '[pool weights]' 'size = 64G' \
		'owner = 1234' 'group = 5678' 'mode = 0640' 'bytes = 32G'
	judge "the example of $1 is a configuration" $?
}
: "${top_srcdir:?set by tests/run}"
shown 'tarnd.conf(5)' "$(
	sed -n '/^\.Bd -literal/,/^\.Ed/ { /^\./!p }' "$top_srcdir/man/tarnd.conf.5"
)"
# shellcheck disable=SC2016 # backquotes of Markdown
shown 'the README' "$(
	sed -n '/^```ini/,/^```$/ { /^```/!p }' "$top_srcdir/README.md"
)"

rm "$conf"
"$TARN_DAEMON" --config "$conf" --check-config >seen 2>&1
[ $? -eq 2 ] && grep -q 'cannot read the configuration' seen
judge "a file that is not there is an error" $?
echo '[daemon]' >"$conf"
chmod 0622 "$conf"
"$TARN_DAEMON" --config "$conf" --check-config >seen 2>&1
[ $? -eq 2 ] && grep -q 'can be written by others' seen
judge "one that others can write is not believed" $?
cd / && rm -rf "$TMPDIR/files"
echo "1..$count"
