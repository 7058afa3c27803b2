#!/bin/bash
# SPDX-License-Identifier: MIT
# Time-out: 1200 s
#
# Two disks with ext4: a virtio disk of 512-byte sectors and an NVMe disk of
# 4096-byte ones. Files are read and written directly, each disk as it needs.
# shellcheck disable=SC1091,SC2034,SC2154 # kit.sh and inside.sh share them
. "${top_srcdir:?set by tests/run}/tests/vm/kit.sh"

memory=768M
modules=(loop)
machine=(
	-drive "if=none,id=nvme,format=raw,cache=unsafe,file=${TMPDIR-}/one.nvme"
	-device "nvme,serial=tarn,drive=nvme,logical_block_size=4096,physical_block_size=4096"
)
programs=(tests/vm/dioalign tests/store/{store,publish_memory}
	tests/lib/{fill,io_engine,io_mode,load_file,save} tests/daemon/loads)

sector() { # DISK
	cat "/sys/block/$1/queue/logical_block_size"
}

# one FOLDER BYTES DISK: what is true of the disk below the folder.
one() {
	local file=$1/file

	is "$2" "$(sector "$3")" "$3 has sectors of $2 bytes"
	printf '%5000s' x >"$file"
	has "$2 " "$(/tarn/tests/vm/dioalign "$file")" \
		"statx says that direct reads of it are aligned to $2 bytes"
	findings -- "$file" "$1"
	finding type good "ext4, local" "$file"
	finding direct good "works; offsets are multiples of $2, " "$file"
	finding direct good "works; offsets are multiples of $2, " "$1"
	if [ "$3" = vda ]; then
		finding disk unknown "vda, a virtual disk" "$1"
	else
		finding disk good "$3, NVMe" "$1"
	fi
	advice transparent
	rm "$file"
	serves "$1"
	end_daemon
	TMPDIR=$1 tests store/store lib/{fill,io_engine,io_mode,load_file,save}
}

# Files that are in memory already: nothing is read directly, or kept.
in_memory() {
	mount -t tmpfs memory /mnt
	printf '%5000s' x >/mnt/file
	findings -- /mnt/file /mnt
	finding type costs "tmpfs, in memory" /mnt/file
	finding type good "tmpfs, in memory" /mnt
	finding direct good "not used: the file is in memory" /mnt/file
	remedy type "tarn load FILE --name PREFIX"
	serves /mnt
	end_daemon
	TMPDIR=/mnt tests store/{store,publish_memory} daemon/loads \
		lib/{io_mode,load_file,save}
	umount /mnt
}

inside() {
	mkdir /mnt/nvme
	mount -t ext4 /dev/nvme0n1 /mnt/nvme
	rmdir /mnt/nvme/lost+found
	one /tmp 512 vda
	one /mnt/nvme 4096 nvme0n1
	umount /mnt/nvme
	in_memory
}

need
make_disk "$TMPDIR/one.nvme" 512M
guest
