# SPDX-License-Identifier: MIT
#
# A guest is one script: it says what the machine is like, in variables, and
# what is to be found in it, in the function inside. This is what boots it. The
# same script runs in the guest, where inside.sh takes this file's place.
#
#	memory=1G cpus=2   the machine
#	machine=()         further arguments of qemu: nodes, disks
#	linux=()           words of the kernel's command line
#	modules=()         more modules of the kernel than a virtio disk needs
#	programs=()        of the build, like tests/daemon/pools
#	limit=1000         seconds until it is given up
#
# All guests begin with the same archive of files, made again when one of them
# has changed; a small one with the guest's own comes behind it. A guest has two
# lines: the kernel's console, which is shown when something fails, and one of
# virtio, which takes lines at a time, that TAP is written to.
# shellcheck shell=bash disable=SC2034,SC2054 # the guest sets and reads them
: "${top_srcdir:?set by tests/run}" "${top_builddir:?set by tests/run}"
vm=$top_builddir/vm kernel=$vm/linux
memory=1G cpus=2 limit=1000
machine=() linux=() modules=() programs=()
disk=512M # in which it has its files
# What the guest is, and what runs there; another one: tests/vm/arm64.sh.
architecture=amd64 strip=strip sysroot=''
platform=(-M q35 -cpu "max,la57=off") console=ttyS0
qemu="qemu-system-x86_64"
PATH=$PATH:/usr/sbin:/sbin

skip_all() { # SENTENCE...
	echo "1..0 # SKIP $*"
	exit 0
}

stop() { # SENTENCE...
	echo "Bail out! $*"
	exit 99
}

# ---- the archives -----------------------------------------------------------

# What every guest has of Debian and of the build.
tools=(bash setpriv prlimit)
base_programs=(cli/tarn daemon/tarnd tests/run)

# libtool's programs are scripts until they are installed.
built() { # PROGRAM: where it is
	local real=$top_builddir/${1%/*}/.libs/${1##*/}

	[ -e "$real" ] || real=$top_builddir/$1
	echo "$real"
}

put() { # ROOT FROM TO: stripped, as what it is
	mkdir -p "$1/${3%/*}" && cp -L "$2" "$1/$3" &&
		{ $strip "$1/$3" 2>/dev/null || true; }
}

tool() { # NAME: where it is
	if [ "$sysroot" ]; then
		echo "$sysroot/usr/bin/$1"
	else
		command -v "$1"
	fi
}

libraries() { # PROGRAM...: those of all of them
	LD_LIBRARY_PATH=$top_builddir/lib/.libs ldd "$@" |
		grep -oE '/[^ ]+' | grep -v ':$' | sort -u
}

put_programs() { # ROOT PROGRAM...: and the libraries that are not there yet
	local root=$1 p lib
	local -a files=()
	shift

	for p; do
		[ -e "$(built "$p")" ] || stop "$p is not built: make check-vm"
		put "$root" "$(built "$p")" "tarn/$p" || return
		files+=("$(built "$p")")
	done
	[ "$root" != "$vm/base" ] || for p in "${tools[@]}"; do
		put "$root" "$(tool "$p")" "bin/$p" || return
		files+=("$(tool "$p")")
	done
	[ ${#files[@]} -gt 0 ] || return 0
	for lib in $(libraries "${files[@]}"); do
		case $lib in
		"$top_builddir"/*) put "$root" "$lib" "lib/${lib##*/}" ;;
		*)
			[ -e "$vm/base${lib#"$sysroot"}" ] ||
				put "$root" "$lib" "${lib#"$sysroot"/}"
			;;
		esac || return
	done
}

# Each file by its time: what the base was made of.
inputs() {
	local p

	for p in "${base_programs[@]}"; do built "$p"; done
	printf '%s\n' "$top_builddir/lib/.libs/libtarn.so.0" \
		"$top_srcdir"/tests/vm/{kit,inside}.sh \
		"$top_srcdir/tests/kit/cli.sh"
	for p in busybox "${tools[@]}"; do tool "$p"; done
}

pack() { # ROOT ARCHIVE
	(cd "$1" && find . | LC_ALL=C sort |
		cpio -o -H newc -R 0:0 --quiet) >"$2.new" && mv "$2.new" "$2"
}

make_base() {
	local root=$vm/base applet

	rm -rf "$root"
	mkdir -p "$root"/{bin,dev,etc,proc,sys,tmp,run,vm,mnt,root} || return
	put_programs "$root" "${base_programs[@]}" || return
	cp -L "$(tool busybox)" "$root/bin/busybox" || return
	for applet in $(busybox --list); do
		[ -e "$root/bin/$applet" ] ||
			ln -s busybox "$root/bin/$applet" || return
	done
	mkdir -p "$root/vm/tests/vm" "$root/usr/lib/locale" &&
		cp "$top_srcdir/tests/vm/inside.sh" "$root/vm/tests/vm/kit.sh" &&
		cp "$top_srcdir/tests/kit/cli.sh" "$root/vm" || return
	[ ! -d /usr/lib/locale/C.utf8 ] ||
		cp -r /usr/lib/locale/C.utf8 "$root/usr/lib/locale" || return
	printf '#!/bin/bash\nexec /bin/bash /vm/tests/vm/kit.sh\n' \
		>"$root/init"
	chmod 755 "$root/init"
	printf '%s\n' root:x:0:0::/root:/bin/sh tester:x:1000:1000::/tmp:/bin/sh \
		>"$root/etc/passwd"
	printf '%s\n' root:x:0: tester:x:1000: >"$root/etc/group"
	pack "$root" "$vm/base.cpio"
}

refresh_base() {
	inputs | xargs -d '\n' stat -L -c '%n %s %y' >"$TMPDIR/inputs" ||
		return
	cmp -s "$TMPDIR/inputs" "$vm/base.inputs" && return
	make_base && cp "$TMPDIR/inputs" "$vm/base.inputs"
}

# The module and those that it needs, in the order in which they are loaded.
put_modules() { # ROOT
	local m line

	for m in virtio_pci virtio_blk virtio_console ext4 "${modules[@]}"; do
		modprobe -d "$kernel" --show-depends \
			-S "$(basename "$kernel"/lib/modules/*)" "$m" || return
	done >"$TMPDIR/modules"
	mkdir -p "$1/vm/modules"
	while read -r _ line _; do
		[[ $line == /* ]] || continue # built in
		[ -e "$1/vm/modules/${line##*/}" ] && continue
		cp "$line" "$1/vm/modules" || return
		echo "${line##*/}" >>"$1/vm/modules.list"
	done <"$TMPDIR/modules"
}

# make_guest NAME [FILE]...: its own archive; the files lie in /vm.
make_guest() {
	local root=$TMPDIR/$1.root name=$1
	shift

	mkdir -p "$root/vm" && put_programs "$root" "${programs[@]}" &&
		put_modules "$root" && cp "$0" "$root/vm/guest.sh" &&
		{ [ $# -eq 0 ] || cp "$@" "$root/vm"; } &&
		pack "$root" "$TMPDIR/$name.own" &&
		cat "$vm/base.cpio" "$TMPDIR/$name.own" >"$TMPDIR/$name.cpio"
}

# ---- booting ----------------------------------------------------------------

make_disk() { # FILE SIZE [MKE2FS-OPTION]...
	local file=$1 size=$2
	shift 2

	truncate -s "$size" "$file" && mke2fs -q -F -t ext4 -b 4096 \
		-J size=8 -E root_owner=0:0 "$@" "$file" 2>"$TMPDIR/mke2fs" || {
		cat "$TMPDIR/mke2fs"
		stop "a disk cannot be made"
	}
}

# drive ID FILE: what is written need not be on this machine's disk.
drive() {
	arguments+=(-drive "if=none,id=$1,format=raw,cache=unsafe,file=$2")
}

need() {
	local name

	mkdir -p "$vm" || stop "$vm cannot be made"
	[ "$(uname -m)" = x86_64 ] ||
		skip_all "the guests have programs of x86-64 machines"
	for name in $qemu cpio busybox modprobe mke2fs flock; do
		command -v "$name" >/dev/null || skip_all "there is no $name here"
	done
	exec 9>"$vm/lock"
	flock 9 # guests run side by side
	trap 'rm -rf "${TMPDIR:?}"/*' EXIT
	[ ! "$sysroot" ] || cross_build
	[ -e "$kernel/vmlinuz" ] || use_kernel "$vm"
	refresh_base || stop "the guests' files cannot be packed"
	exec 9>&-
}

# use_kernel FOLDER [SOURCE] [PACKAGE]...: with names, another one than all
# others have.
use_kernel() {
	local folder=$1 why
	shift

	mkdir -p "$folder"
	why=$(bash "$top_srcdir/tests/vm/linux.sh" "$folder" "$architecture" \
		"$@") || skip_all "$why"
	kernel=$folder/linux
}

# The words for qemu: NAME's archive, and its two lines.
qemu_arguments() { # NAME
	arguments=(-accel "tcg,thread=multi" "${platform[@]}"
		-smp "$cpus" -m "$memory"
		-nodefaults -no-user-config -display none -no-reboot
		-serial "file:$TMPDIR/$1.console"
		-device virtio-serial-pci
		-chardev "file,id=tap,path=$TMPDIR/$1.tap"
		-device "virtconsole,chardev=tap"
		-kernel "$kernel/vmlinuz" -initrd "$TMPDIR/$1.cpio"
		-append "console=$console panic=-1 mitigations=off quiet ${linux[*]}"
	)
	[ ! -e "$TMPDIR/$1.disk" ] || {
		drive scratch "$TMPDIR/$1.disk"
		arguments+=(-device virtio-blk-pci,drive=scratch)
	}
	arguments+=("${machine[@]}")
}

boot() { # NAME: until the guest ends, or is ended
	qemu_arguments "$1"
	timeout -k 5 "$limit" "$qemu" "${arguments[@]}" \
		>"$TMPDIR/$1.qemu" 2>&1
}

show_console() { # NAME
	tail -n 5 "$TMPDIR/$1.qemu" | sed 's/^/# qemu: /'
	tail -n 5 "$TMPDIR/$1.tap" | tr -d '\r' | sed 's/^/# said: /'
	tail -n 40 "$TMPDIR/$1.console" | tr -d '\r' | sed 's/^/# console: /'
}

# What the guest said; it ended well if its last line is its plan.
report() { # NAME STATUS-OF-QEMU
	tr -d '\r' <"$TMPDIR/$1.tap" >"$TMPDIR/$1.said"
	cat "$TMPDIR/$1.said"
	if [ "$2" -ne 0 ] || ! grep -q '^1\.\.' "$TMPDIR/$1.said"; then
		show_console "$1"
		[ "$2" -ne 124 ] || stop "the guest was not done in $limit s"
		stop "the guest ended before its tests (qemu: status $2)"
	fi
	! grep -q '^not ok' "$TMPDIR/$1.said" || show_console "$1"
}

# guest [FILE]... [-- DISK...]: the usual: boots once, and says what was found
# inside. The files lie in /vm; the disks are /dev/vdb and on.
guest() {
	local status file i=0
	local -a files=()

	need
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		files+=("$1")
		shift
	done
	for file in "${@:2}"; do
		i=$((i + 1))
		machine+=(-drive "if=none,id=d$i,format=raw,cache=unsafe,file=$file"
			-device "virtio-blk-pci,drive=d$i")
	done
	make_guest one "${files[@]}" ||
		stop "the guest's files cannot be packed"
	make_disk "$TMPDIR/one.disk" "$disk"
	boot one
	status=$?
	report one $status
}
