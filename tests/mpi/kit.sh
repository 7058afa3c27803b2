# SPDX-License-Identifier: MIT
#
# Ranks: what tests share that mpirun starts. More of them than there are
# processors, as root where the test is root's, and without a network.
# shellcheck disable=SC1091 # the vocabulary
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
export OMPI_MCA_btl=${OMPI_MCA_btl:-self,vader,tcp}
# Ranks that wait for each other take naps.
nap=${top_builddir:?set by tests/run}/tests/kit/.libs/libnap_yield.so
programs=${top_builddir:?set by tests/run}/tests/mpi

mpi_missing() { # why nothing can be run here; nothing if it can
	if [ ! -x "$programs/moves" ]; then
		echo "there is no libtarn-mpi: configure found no MPI, or was" \
			"asked for sanitizers, which find faults in MPI"
	elif ! command -v mpirun >/dev/null; then
		echo "there is no mpirun"
	fi
}

# Ends the script where nothing can be run; else its folder is the current one.
in_files() {
	local missing
	missing=$(mpi_missing)
	if [ -n "$missing" ]; then
		echo "1..0 # SKIP $missing"
		exit 0
	fi
	mkdir "$TMPDIR/files" && cd "$TMPDIR/files" || exit 1
}

ranks() { # N COMMAND...: of Open MPI or of another
	local n=$1 flags=()
	shift
	! mpirun --version 2>/dev/null | grep -q 'Open MPI' ||
		flags=(--allow-run-as-root --oversubscribe --bind-to none)
	LD_PRELOAD=$nap timeout 300 mpirun "${flags[@]}" -n "$n" "$@" </dev/null
	local status=$?
	# What a job leaves that was ended.
	rm -rf "$TMPDIR"/ompi.*
	return $status
}

# on_nodes N PER COMMAND...: each PER ranks are a node, with a daemon of their own;
# a % in an argument becomes the number of the node, which is $NODE, too.
on_nodes() {
	local n=$1 per=$2
	shift 2
	# shellcheck disable=SC2016 # of the shell that each rank is
	ranks "$n" bash -c '
		NODE=$((${OMPI_COMM_WORLD_RANK:-$PMI_RANK} / $0))
		export NODE TARN_SOCKET=$XDG_RUNTIME_DIR/n$NODE/tarnd.sock
		exec "${@//%/$NODE}"' "$per" "$@"
}

# The daemons of all nodes are ended with the test.
own_nodes() {
	export TARN_AUTOSTART=1
	trap end_nodes EXIT
}

end_nodes() {
	local socket
	[ "$BASHPID" = $$ ] || return
	for socket in "$XDG_RUNTIME_DIR"/n*/tarnd.sock; do
		TARN_AUTOSTART=0 "$TARN" stop --socket "$socket" >/dev/null 2>&1
	done
}
