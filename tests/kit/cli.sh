# SPDX-License-Identifier: MIT
#
# What the tests of the command share: a small vocabulary of TAP, files made
# by hand, and a daemon that is gone when the test is.
: "${TARN:?set by tests/run}"
n=0

# is WANTED SEEN WHAT
is() {
	n=$((n + 1))
	if [ "$1" = "$2" ]; then
		echo "ok $n - $3"
	else
		echo "not ok $n - $3"
		printf '%s\n' "wanted: $1" "seen: $2" | sed 's/^/# /'
	fi
}

# has PART TEXT WHAT
has() {
	n=$((n + 1))
	case $2 in
	*"$1"*) echo "ok $n - $3" ;;
	*)
		echo "not ok $n - $3"
		printf '%s\n' "wanted: ...$1..." "seen: $2" | sed 's/^/# /'
		;;
	esac
}

# skipped COUNT WHY
skipped() {
	for _ in $(seq "$1"); do
		n=$((n + 1))
		echo "ok $n # SKIP $2"
	done
}

# run COMMAND...: its $status, and what is on $out and on $err.
run() {
	out=$("$@" 2>"$TMPDIR/err")
	status=$?
	err=$(cat "$TMPDIR/err")
}

# Nothing is left behind.
finish() {
	cd / && rm -rf "$TMPDIR/err" "$TMPDIR/files"
	echo "1..$n"
}

# json EXPRESSION: in Python, of j, the object in $out.
json() {
	printf '%s' "$out" | "$PYTHON" -c \
		"import json, sys; j = json.load(sys.stdin); print($1)" 2>&1
}

# safetensors FILE HEADER BYTES: that many bytes of data, 0, 1, 2, ...
safetensors() {
	"$PYTHON" - "$@" <<-'END'
		import sys
		path, header, size = sys.argv[1:]
		header = header.encode()
		with open(path, "wb") as f:
		    f.write(len(header).to_bytes(8, "little") + header)
		    f.write(bytes(i % 256 for i in range(int(size))))
	END
}

# complete_line WORD...: what bash is given for the last one, which is being
# typed.
complete_line() {
	bash --norc -c 'PATH=$(dirname "$TARN"):$PATH
		eval "$(tarn completion bash)"
		COMP_WORDS=(tarn "$@") COMP_CWORD=$#
		_tarn && echo ${COMPREPLY[*]}' complete "$@"
}

# From here on a daemon may be started, and is ended with the test.
own_daemon() {
	export TARN_AUTOSTART=1 TARN_SOCKET=$XDG_RUNTIME_DIR/own/tarnd.sock
	trap end_daemon EXIT
}

# Of this shell only: a child that a signal ends before it has become its
# command runs the trap too.
end_daemon() {
	[ "$BASHPID" = $$ ] && TARN_AUTOSTART=0 "$TARN" stop >/dev/null 2>&1
}
