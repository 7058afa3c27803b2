# shellcheck shell=sh disable=SC2154 # shared with the script that sources it
# SPDX-License-Identifier: MIT
#
# A daemon of the benchmark's own; to be sourced by one that is run in the
# build folder, and has a $folder for itself: ended, and the folder removed,
# when the script ends.

if [ -z "${TARN_DAEMON:-}" ] && [ ! -x daemon/tarnd ]; then
	echo "$0: no daemon/tarnd here: run it in the build folder, or" \
		"'make -C build bench BENCHES=bench/${0##*/}'" >&2
	rm -rf "$folder"
	exit 2
fi
daemon=
end_daemon() {
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || :
	[ -z "$daemon" ] || wait "$daemon" 2>/dev/null || :
	rm -rf "$folder"
}
trap end_daemon EXIT
trap 'exit 1' HUP INT TERM

start_daemon() { # [OPTION...]: at $folder/sock, and answering
	"${TARN_DAEMON:-daemon/tarnd}" --socket "$folder/sock" "$@" &
	daemon=$!
	while [ ! -S "$folder/sock" ]; do
		kill -0 $daemon
		sleep 0.05
	done
}
