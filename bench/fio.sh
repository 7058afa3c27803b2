# shellcheck shell=sh disable=SC2154,SC2034 # shared with the script that sources it
# SPDX-License-Identifier: MIT
#
# fio as the reference of a cold read, for the scripts beside it. They set
# file and size (MiB), keep their lines in $file.log, and call
#
#	run_fio		one sequential direct read: "fio: RATE GiB/s, CPU ms"
#	fio_line NAME ARGUMENTS...	another run of fio, by another name
#	summary WHO...	medians of the lines that begin with each WHO

have_fio=yes
command -v fio >/dev/null || {
	have_fio=no
	echo "fio is not installed: no reference (install fio)"
}

# fio_line NAME ARGUMENTS...: "NAME: RATE GiB/s, CPU ms"
fio_line() {
	fio_name=$1
	shift
	fio --name=job --filename="$file" --size="${size}M" "$@" \
		--output-format=json >"$file.fio" 2>&1 || {
		echo "fio failed:"
		sed 's/^/  /' "$file.fio"
		return 1
	}
	# The numbers that follow the names, in the part that is not 0: KiB/s,
	# and CPU in percent of the run's milliseconds.
	tr -d ',' <"$file.fio" | awk -v mib="$size" -v name="$fio_name" '
	$1 == "\"bw\"" && !bw { bw = $3 }
	$1 == "\"runtime\"" && !ms { ms = $3 }
	$1 == "\"usr_cpu\"" { cpu += $3 }
	$1 == "\"sys_cpu\"" { cpu += $3 }
	END { printf "%s: %.3f GiB/s, %.1f ms of CPU per GiB\n", name,
		bw / 1048576, cpu / 100 * ms / (mib / 1024) }'
}

run_fio() {
	fio_line fio --readonly --rw=read --ioengine=io_uring --direct=1 \
		--bs=512k --iodepth=32 --fixedbufs=1 --registerfiles=1
}

median() {
	sed -n "s/^$1.*: \([0-9.]*\) GiB.*, \([0-9.]*\) ms.*/\\$2/p" \
		"$file.log" | sort -n |
		awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'
}

summary() {
	fio=$(median fio 1)
	for who in fio "$@"; do
		rate=$(median "$who" 1)
		[ -n "$rate" ] || continue
		printf '  %-14s %s GiB/s, %s ms of CPU per GiB' "$who" "$rate" \
			"$(median "$who" 2)"
		[ "$who" = fio ] || [ -z "$fio" ] || echo "$rate $fio" |
			awk '{ printf ", %.2f of fio", $1 / $2 }'
		echo
	done
}
