#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Two images whose files have the same inode, size and times, mounted one after
# the other from the same device: the second one's tensors are its own. Builders
# of images write one constant time into all of them, whole seconds, and such a
# file is not kept. One that means to deceive writes any time; its file is kept,
# and only the disk's sequence number differs.
# shellcheck disable=SC1091,SC2154 # run sets out, err and status
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"

skip_all() {
	echo "1..0 # SKIP $1"
	exit 0
}

PATH=$PATH:/usr/sbin:/sbin
command -v losetup >/dev/null || skip_all "needs losetup"
[ "$(id -u)" = 0 ] || skip_all "needs root, to mount images"

# A namespace of its own: the mounts go with it.
if [ -z "$TARN_TEST_MOUNTS" ]; then
	unshare -m true 2>/dev/null || skip_all "no mount namespace: unshare -m"
	TARN_TEST_MOUNTS=1 exec unshare -m "$BASH" "$0"
fi

files=$TMPDIR/files
mnt=$files/mnt
mkdir -p "$mnt"
loop=
release() {
	umount "$mnt" 2>/dev/null
	[ -z "$loop" ] || losetup -d "$loop" 2>/dev/null
	end_daemon
}
own_daemon
trap release EXIT

for v in 1 2; do
	mkdir "$files/v$v"
	"$PYTHON" - "$files/v$v/m.safetensors" "$v" <<-'END'
	import sys
	path, value = sys.argv[1:]
	header = b'{"t":{"dtype":"U8","shape":[99999],"data_offsets":[0,99999]}}'
	with open(path, "wb") as f:
	    f.write(len(header).to_bytes(8, "little") + header)
	    f.write(bytes([int(value)]) * 99999)
	END
done

make_squashfs() { # FOLDER IMAGE
	mksquashfs "$1" "$2" -all-time 0 -mkfs-time 0 -no-progress -quiet \
		-noappend
}

make_ext4() { # FOLDER IMAGE [NANOSECONDS, as the inode has them]
	local time

	truncate -s 8M "$2"
	mke2fs -q -t ext4 -U 5eed0000-0000-4000-8000-000000000000 \
		-E hash_seed=5eed0000-0000-4000-8000-000000000001 -d "$1" "$2" ||
		return 1
	for time in atime mtime ctime crtime; do
		echo "set_inode_field m.safetensors $time 20200101000000"
		[ $time = crtime ] ||
			echo "set_inode_field m.safetensors ${time}_extra ${3:-0}"
	done | debugfs -w -f - "$2"
}

make_deceit() { # FOLDER IMAGE
	make_ext4 "$@" 0x1d6f3450
}

# seen: the tensor's first element; and which file it was.
seen() {
	stat -c '%d %i %s %y %z' "$mnt/m.safetensors" >"$files/which"
	"$TARN" print --raw "$mnt/m.safetensors:t" '[0:1]' 2>&1 |
		od -An -tu1 | tr -d ' \n'
}

# mounted KIND VERSION: on the same device each time.
mounted() {
	# Another test may take the device meanwhile, and need it for long.
	for _ in $(seq 12000); do
		if [ -z "$loop" ]; then
			loop=$(losetup -f --show "$files/v$2.$1") && break
			loop=
		else
			losetup "$loop" "$files/v$2.$1" 2>/dev/null && break
		fi
		sleep .05
	done
	# What another test had mounted from the device may still be going.
	for _ in $(seq 1200); do
		mount -t "${1/deceit/ext4}" -o ro "$loop" "$mnt" \
			2>"$TMPDIR/err" && return
		grep -q 'already mounted' "$TMPDIR/err" || return
		sleep .05
	done
	return 1
}

# The daemon closes what it has read in its own time.
unmounted() {
	for _ in $(seq 1200); do
		umount "$mnt" 2>"$TMPDIR/err" && break
		grep -q 'busy' "$TMPDIR/err" || break
		sleep .05
	done
	losetup -d "$loop"
}

try() { # KIND TOOL KEPT
	local v first

	if ! command -v "$2" >/dev/null; then
		skipped 5 "$1: needs $2"
		return
	fi
	for v in 1 2; do
		"make_$1" "$files/v$v" "$files/v$v.$1" >"$TMPDIR/out" 2>&1 && continue
		skipped 5 "$1: $2 cannot make an image with constant times"
		return
	done
	if ! mounted "$1" 1; then
		skipped 5 "$1: $(cat "$TMPDIR/err")"
		return
	fi
	run "$TARN" load "$mnt/m.safetensors"
	is 0 "$status" "$1: the first image's file is loaded"
	is 1 "$(seen)" "$1: its tensor is its own"
	first=$(cat "$files/which")
	unmounted
	if ! mounted "$1" 2; then
		echo "Bail out! no mount: $(cat "$TMPDIR/err")"
		exit 1
	fi
	is 2 "$(seen)" "$1: the second image's tensor is its own"
	is "$first" "$(cat "$files/which")" \
		"$1: all stamps of the two files are equal"
	run "$TARN" load --json "$mnt/m.safetensors"
	is "$3" "$(json 'j["not_kept"] is None')" \
		"$1: tarn load says whether the file is kept"
	unmounted
	rm -f "$TMPDIR/out" "$TMPDIR/err"
}

try squashfs mksquashfs False
try ext4 debugfs False
if [ -e /sys/block/loop0/diskseq ]; then
	try deceit debugfs True
else
	skipped 5 "deceit: disks have no sequence number here (Linux 5.15)"
fi
finish
