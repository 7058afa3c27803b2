#!/bin/bash
# SPDX-License-Identifier: MIT
# Time-out: 1200 s
#
# The power is cut in the middle of saves. A guest saves a file again and again,
# and is killed; qemu has written down all that reached its disk, with the
# flushes between. Of that, dozens of disks are made which a cut can leave
# (cut.c), at any moment, without any of what was not flushed. Another guest
# mounts each of them, and its kernel repairs it: the file must be the old
# version or the new one, and not older than the last save that had returned.
# On a second disk the file is overwritten in place, to show that the judge sees
# what is wrong with that.
# shellcheck disable=SC1091,SC2034,SC2154 # kit.sh and inside.sh share them
. "${top_srcdir:?set by tests/run}/tests/vm/kit.sh"

memory=512M
modules=(loop)
programs=(tests/vm/saver)
cuts=60 cuts_bad=24 # disks that are judged
least_version=15
size=$((64 << 20)) marks=$((63 << 20)) # the file system ends before the marks

# logged ID: a disk, all writes to which go to a log as well.
logged() {
	machine+=(
		-blockdev "driver=file,node-name=$1-f,filename=$TMPDIR/$1.after,cache.no-flush=on"
		-blockdev "driver=raw,node-name=$1-d,file=$1-f"
		-blockdev "driver=file,node-name=$1-l,filename=$TMPDIR/$1.log,cache.no-flush=on"
		-blockdev "driver=blklogwrites,node-name=$1,file=$1-d,log=$1-l"
		-device "virtio-blk-pci,drive=$1,write-cache=on"
	)
}

make_logged_disk() { # ID
	make_disk "$TMPDIR/$1.before" $marks
	truncate -s $size "$TMPDIR/$1.before"
	cp --sparse=always "$TMPDIR/$1.before" "$TMPDIR/$1.after"
	truncate -s 4G "$TMPDIR/$1.log" # qemu does not extend it
}

saved() { # PATH: the last version that the guest said it saved
	sed -n "s,^# $1: version \([0-9]*\) is saved.*,\1,p" "$TMPDIR/one.tap" \
		2>/dev/null | tail -n 1
}

# Boots the guest that saves, and ends it without a warning.
save_and_cut() {
	local version plain

	qemu_arguments one
	"$qemu" "${arguments[@]}" >"$TMPDIR/one.qemu" 2>&1 &
	for ((i = 0; i < limit * 10; i++)); do
		version=$(saved /mnt/good/f) plain=$(saved /mnt/bad/f)
		[ "${version:-0}" -lt $least_version ] ||
			[ "${plain:-0}" -lt $least_version ] || break
		kill -0 $! 2>/dev/null || break
		sleep 0.1
	done
	sleep "0.$((RANDOM % 1000))"
	kill -KILL $! 2>/dev/null || {
		show_console one
		stop "the guest ended before its power was cut"
	}
	wait $! 2>/dev/null
	[ "${version:-0}" -ge $least_version ] || {
		show_console one
		stop "the guest had saved ${version:-no} versions in $limit s"
	}
	echo "# the power was cut after version $version"
}

# The saving guest, then the judging one: which it is, its files say.
inside() {
	if [ -e /vm/cuts.good ]; then
		judge_all
		return
	fi
	mkdir /mnt/good /mnt/bad
	mount -t ext4 /dev/vdb /mnt/good
	mount -t ext4 /dev/vdc /mnt/bad
	/tarn/tests/vm/saver save /mnt/bad/f /dev/vdc $marks unsafe &
	/tarn/tests/vm/saver save /mnt/good/f /dev/vdb $marks
}

# judge_one DISK INDEX LEAST MOST [unsafe]: the saver's verdict; 3: it is not
# mounted.
judge_one() {
	local verdict=3

	losetup -o $(($2 * size)) /dev/loop0 "$1" || return 3
	if mount -t ext4 /dev/loop0 /mnt; then
		/tarn/tests/vm/saver judge /mnt/f "$3" "$4" "${@:5}"
		verdict=$?
		# What read by io_uring lets go of its files a while after it
		# has ended.
		until umount /mnt 2>/dev/null; do sleep 0.02; done
	fi
	losetup -d /dev/loop0
	return $verdict
}

judge_disk() { # DISK LIST [unsafe]: counts in $whole, $half, $late, $unmounted
	local index least most

	whole=0 half=0 late=0 unmounted=0
	while read -r index least most; do
		judge_one "$1" "$index" "$least" "$most" "${@:3}"
		case $? in
		0) whole=$((whole + 1)) ;;
		2) late=$((late + 1)) ;;
		3) unmounted=$((unmounted + 1)) ;;
		*) half=$((half + 1)) ;;
		esac
	done <"$2"
	echo "# $2: $whole whole, $half half, $late older, $unmounted unmounted"
}

judge_all() {
	judge_disk /dev/vdb /vm/cuts.good
	is "$cuts" "$whole" "of $cuts disks all have a whole version"
	is "0 0 0" "$half $late $unmounted" \
		"none has half of one, or an older one than was saved"
	judge_disk /dev/vdc /vm/cuts.bad unsafe
	is 0 "$unmounted" "the disks with the overwritten file can be mounted"
	is yes "$([ $half -gt 0 ] && echo yes)" \
		"overwritten in place, half files are found: $half"
	judge_one /dev/vdb 0 1000 1000
	is 2 $? "a file that is older than the last save is known as that"
}

if [ "$vm" ]; then
	need
	for id in good bad; do
		make_logged_disk $id
		logged $id
	done
	make_disk "$TMPDIR/one.disk" 64M
	make_guest one || stop "the guest's files cannot be packed"
	save_and_cut
	for id in good bad; do
		seed=$RANDOM
		echo "# seed of $id: $seed"
		[ $id = good ] || cuts=$cuts_bad
		"$top_builddir/tests/vm/cut" "$TMPDIR/$id.log" \
			"$TMPDIR/$id.before" "$TMPDIR/$id.images" $cuts \
			$seed $marks >"$TMPDIR/cuts.$id" || {
			cat "$TMPDIR/cuts.$id"
			stop "the log of the disk cannot be replayed"
		}
	done
	machine=()
	guest "$TMPDIR"/cuts.{good,bad} -- "$TMPDIR"/{good,bad}.images
else
	guest
fi
