# SPDX-License-Identifier: MIT
#
# For a guest of another architecture, after kit.sh: its programs are built here
# by Debian's cross-compiler, against Debian's libraries for it, which lie in a
# folder of the build. All of this is kept and made again where it must be.
# shellcheck shell=bash disable=SC2034,SC2154 # kit.sh shares them
architecture=arm64 qemu=qemu-system-aarch64
platform=(-M virt -cpu neoverse-n1) console=ttyAMA0
triplet=aarch64-linux-gnu strip=$triplet-strip
vm=$top_builddir/vm/arm64
kernel=$vm/linux sysroot=$vm/sysroot
cross_packages=(libc6-dev libinih-dev libjansson-dev liburing-dev libnuma-dev
	libxxhash-dev zlib1g-dev bash busybox-static util-linux)

# Debian's packages unpacked, as a root that the compiler and the guest use.
fetch_sysroot() {
	local new=$vm/sysroot.new package
	# shellcheck source=tests/vm/apt.sh
	. "$top_srcdir/tests/vm/apt.sh"

	rm -rf "$new" && mkdir -p "$new"/usr/{bin,sbin,lib} || return
	for package in bin sbin lib; do
		ln -s "usr/$package" "$new/$package" || return
	done
	apt_elsewhere "$vm" arm64 &&
		apt-get "${apt[@]}" -q update &&
		apt-get "${apt[@]}" -q -y -d --no-install-recommends install \
			"${cross_packages[@]}" || return
	for package in "$vm"/apt/cache/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$package" |
			tar -x --keep-directory-symlink -C "$new" || return
	done
	mv "$new" "$sysroot" && rm -rf "$vm/apt"
}

# The programs of the guest, with warnings as errors.
build_there() {
	local source

	# Of the make that runs this test: its variables are for another build.
	unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL
	source=$(cd "$top_srcdir" && pwd) || return
	mkdir -p "$vm/build" && cd "$vm/build" || return
	export PKG_CONFIG_LIBDIR=$sysroot/usr/lib/$triplet/pkgconfig
	export PKG_CONFIG_SYSROOT_DIR=$sysroot
	[ config.status -nt "$source/configure" ] ||
		"$source/configure" --host=$triplet --enable-werror \
			--disable-python CFLAGS=-O2 \
			CC="$triplet-gcc --sysroot=$sysroot" || return
	make -j "$cpus" all && make -j "$cpus" check TESTS= \
		check_LTLIBRARIES=tests/libkit.la \
		check_PROGRAMS="tests/run ${programs[*]}"
}

# For kit.sh's need, which holds the lock.
cross_build() {
	command -v $triplet-gcc >/dev/null ||
		skip_all "there is no $triplet-gcc here"
	[ -d "$sysroot" ] || fetch_sysroot >"$vm/sysroot.log" 2>&1 ||
		skip_all "apt has not the libraries for arm64: $(
			)$(tail -n 1 "$vm/sysroot.log")"
	(build_there) >"$vm/build.log" 2>&1 || {
		tail -n 20 "$vm/build.log" | sed 's/^/# /'
		stop "the programs for arm64 cannot be built"
	}
	top_builddir=$vm/build
}

# In place of kit.sh's, which asks the loader.
libraries() { # PROGRAM...: those of all of them
	local -a todo=("$@")
	local -A seen=()
	local name folder

	while [ ${#todo[@]} -gt 0 ]; do
		for name in $(readelf -d "${todo[0]}" |
			sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
			[ ! "${seen[$name]-}" ] || continue
			seen[$name]=1
			for folder in "$top_builddir/lib/.libs" \
				"$sysroot/lib/$triplet" "$sysroot/lib"; do
				[ -e "$folder/$name" ] || continue
				echo "$folder/$name"
				todo+=("$folder/$name")
				break
			done
		done
		todo=("${todo[@]:1}")
	done
	echo "$sysroot/lib/ld-linux-aarch64.so.1"
}
