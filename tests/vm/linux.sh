#!/bin/bash
# SPDX-License-Identifier: MIT
#
# linux.sh FOLDER ARCHITECTURE [SOURCE] [PACKAGE]...: Debian's kernel for clouds,
# or that of packages of other names, or of files; of this machine's apt, or of
# another source of packages, as in sources.list(5), whose keys this machine may
# lack: NAME@SHA256 is a package that must have that checksum. They are fetched
# and only unpacked, so that nothing of this machine changes:
# FOLDER/linux/vmlinuz and FOLDER/linux/lib. What is there already stays. Where
# there is none to be had, one line says why, and the exit status is 77.

set -u
folder=${1:?usage: linux.sh FOLDER ARCHITECTURE [SOURCE] [PACKAGE]...}
architecture=${2:?no architecture}
source=${3:-}
shift 2
[ $# -eq 0 ] || shift
wanted=("$@")
meta=linux-image-cloud-$architecture
PATH=$PATH:/usr/sbin:/sbin
apt=() # this machine's, unless apt_elsewhere says else
# shellcheck source=tests/vm/apt.sh
. "$(dirname "$0")/apt.sh"

cannot() { # SENTENCE...
	echo "$*"
	exit 77
}

[ ! -e "$folder/linux/vmlinuz" ] || exit 0
for tool in apt-get apt-cache dpkg dpkg-deb depmod; do
	command -v $tool >/dev/null ||
		cannot "there is no $tool here, which the kernel's package needs"
done
[ "$(dpkg --print-architecture)" = "$architecture" ] && [ -z "$source" ] ||
	apt_elsewhere "$folder" "$architecture" "$source" ||
	cannot "$folder cannot be written"

new=$(mktemp -d "$folder/linux.XXXXXX") || cannot "$folder cannot be written"
trap 'rm -rf "$new"' EXIT

# The packages; without names, that which the meta package stands for.
names() {
	[ ${#wanted[@]} -eq 0 ] || { printf '%s\n' "${wanted[@]%@*}"; return; }
	apt-cache "${apt[@]}" depends "$meta" 2>/dev/null |
		sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1
}

fetch() {
	local packages

	if [[ ${wanted[0]-} == /* ]]; then
		cp "${wanted[@]}" "$new/"
		return
	fi
	mapfile -t packages < <(names)
	[ ${#packages[@]} -gt 0 ] &&
		(cd "$new" && apt-get "${apt[@]}" -q download "${packages[@]}") \
			>"$new/log" 2>&1
}

# The list of packages may be older than the archive.
fetch || {
	[ "$(id -u)" -ne 0 ] && [ ${#apt[@]} -eq 0 ] ||
		apt-get "${apt[@]}" -q update >/dev/null 2>&1
	[ -n "$(names)" ] || cannot "apt has no package $meta"
	fetch || cannot "apt cannot fetch $(names | paste -sd ' '): $(
		)$(tail -n 1 "$new/log")"
}
for package in "${wanted[@]}"; do
	[[ $package != *@* ]] ||
		sha256sum "$new"/*.deb | grep -q "^${package#*@} " ||
		cannot "the package ${package%@*} has another checksum"
done
for package in "$new"/*.deb; do
	dpkg-deb -x "$package" "$new/root" ||
		cannot "$(basename "$package") cannot be unpacked"
done
mkdir "$new/linux" || exit 1
mv "$new"/root/boot/vmlinuz-* "$new/linux/vmlinuz" &&
	mv "$new/root/lib" "$new/linux/lib" || cannot "the package has no kernel"
depmod -b "$new/linux" "$(basename "$new"/linux/lib/modules/*)" ||
	cannot "depmod cannot read the kernel's modules"
rm -rf "$folder/linux" "$folder/apt"
mv "$new/linux" "$folder/linux"
