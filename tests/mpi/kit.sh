# SPDX-License-Identifier: MIT
#
# Ranks: what tests share that mpirun starts. More of them than there are
# processors, as root where the test is root's, and without a network.
# shellcheck disable=SC1091 # the vocabulary
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"
programs=${top_builddir:?set by tests/run}/tests/mpi

mpi_missing() { # why nothing can be run here; nothing if it can
	if [ ! -x "$programs/moves" ]; then
		echo "there is no libtarn-mpi: configure found no MPI, or was" \
			"asked for sanitizers, which find faults in MPI"
	elif ! command -v mpirun >/dev/null; then
		echo "there is no mpirun"
	fi
}

ranks() { # N COMMAND...: of Open MPI or of another
	local n=$1 flags=()
	shift
	! mpirun --version 2>/dev/null | grep -q 'Open MPI' ||
		flags=(--allow-run-as-root --oversubscribe --bind-to none
			--mca btl 'self,vader,tcp')
	timeout 300 mpirun "${flags[@]}" -n "$n" "$@" </dev/null
}
