#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The units for systemd: systemd understands every line of them, and tarnd the
# command line in them.
: "${TARN_DAEMON:?set by tests/run}"
count=0

judge() { # WHAT SEEN: nothing seen is good
	count=$((count + 1))
	if [ -z "$2" ]; then
		echo "ok $count - $1"
	else
		echo "not ok $count - $1"
		echo "$2" | sed 's/^/# seen: /'
	fi
}

verify() { # WHAT FOLDER OPTION...
	local what=$1 folder=$2 seen r
	shift 2

	if ! command -v systemd-analyze >/dev/null; then
		count=$((count + 1))
		echo "ok $count # SKIP $what: there is no systemd-analyze"
		return
	fi
	seen=$(systemd-analyze --man=no "$@" verify "$folder/tarnd.service" \
		"$folder/tarnd.socket" 2>&1)
	r=$?
	# Units of the machine itself may have faults; ours may not.
	judge "$what" "$(grep tarnd <<<"$seen"; [ $r -eq 0 ] || echo "status $r")"
}

mkdir -p "$TMPDIR/system" "$TMPDIR/user"
for kind in system user; do
	from=${top_srcdir:?}/systemd/tarnd$([ $kind = system ] || echo -user)
	sed "s,@sbindir@,$(dirname "$TARN_DAEMON"),g" "$from.service.in" \
		>"$TMPDIR/$kind/tarnd.service"
	cp "$from.socket" "$TMPDIR/$kind/tarnd.socket"
	line=$(sed -n 's/^ExecStart=//p' "$TMPDIR/$kind/tarnd.service")
	line=${line//%t/$XDG_RUNTIME_DIR}
	# shellcheck disable=SC2086 # words, as systemd cuts them
	judge "tarnd takes the line of the $kind unit" "$(
		$line --check-config 2>&1 >/dev/null || echo "status $?"
	)"
	judge "its socket is what the $kind socket unit makes" "$(
		path=$(sed -n 's/^ListenSequentialPacket=//p' \
			"$TMPDIR/$kind/tarnd.socket")
		grep -q -- "--socket $path\\( \\|\$\\)" \
			"$TMPDIR/$kind/tarnd.service" || echo "not $path"
	)"
done
verify "systemd understands the system units" "$TMPDIR/system"
verify "and those of users" "$TMPDIR/user" --user
rm -rf "$TMPDIR/system" "$TMPDIR/user"
echo "1..$count"
