# shellcheck shell=sh disable=SC2154 # shared with who reads it
# SPDX-License-Identifier: MIT
#
# A daemon of the benchmark's own; to be sourced by one that is run in the
# build folder, and has a $folder for itself: ended, and the folder removed,
# when the script ends.

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
