#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The protocols of shared memory, for every interleaving: each model holds, and
# each does not when something is left out that it needs. A proof that could
# not fail would prove nothing.
#
# TARN_MODELS=long adds the large ones (minutes, and 3 GB).

models=${top_srcdir:?set by tests/run}/tests/models
n=0
long=
read -ra cc <<<"${CC:-cc}"

command -v spin >/dev/null || { echo "1..0 # SKIP there is no spin"; exit 0; }
cd "$TMPDIR" || exit 1

# search HOW MODEL FLAG...: what the verifier says is in $said.
search() {
	local how=$1 model=$2
	shift 2

	rm -f pan* ./*.trail
	cp "$models/$model.pml" . || return
	said=$(spin -a "$@" "$model.pml" 2>&1 &&
		"${cc[@]}" -w $how -DSAFETY -DMEMLIM=3000 -o pan pan.c 2>&1 &&
		./pan -m100000 -w22 2>&1)
}

result() { # OK WHAT
	n=$((n + 1))
	echo "$1 $n - $2"
	[ "$1" = ok ] || printf '%s\n' "$said" | head -n 40 | sed 's/^/# /'
}

# All of it was searched, and nothing was found.
holds() { # MODEL FLAG...
	search "${long:--O1}" "$@"
	if [[ $said == *"errors: 0"* && $said != *"not completed"* ]]; then
		result ok "$* holds"
	else
		result "not ok" "$* holds"
	fi
	printf '%s\n' "$said" | sed -n 's/^ *\([0-9]* states, stored\)/# \1/p'
}

# An assertion fails that says WHY; a model that does not compile is no proof.
broken() { # WHY MODEL FLAG...
	local why=$1
	shift

	search -O0 "$@" # found at once, unless the compiler takes its time
	if [[ $said == *"assertion violated ("*"$why"* ]]; then
		result ok "$* is found out"
	else
		result "not ok" "$* is found out"
	fi
}

# ---- leases
used='users[0]==0'     # freed while somebody uses it
leak='name[n]||'       # free for ever, and nobody frees it
other='made[s]==m'     # other bytes than the name led to

holds lease -DCRASHES=0 -DDEATHS=0
holds lease -DGENERATIONS=1 -DDEATHS=0
holds lease -DGENERATIONS=1 -DCRASHES=0
holds lease -DGENERATIONS=1 -DSTORAGES=2 -DOPS=1 -DCRASHES=0 -DDEATHS=0
holds lease -DCLIENTS=1 -DOPS=3 -DCRASHES=2
broken "$used" lease -DNO_ACQUIRE_FENCE
broken "$used" lease -DNO_FREE_FENCE -DLEAKS_DO_NOT_COUNT
broken "$leak" lease -DNO_FREE_FENCE
broken "$leak" lease -DNO_RELEASE_FENCE
broken "$leak" lease -DNO_BELL
broken "$leak" lease -DNO_BELL_OF_REFUSED
broken "$used" lease -DDROP_BEFORE_INSTALL
broken "$used" lease -DNO_CHECK_AT_HAND_OVER
broken "$leak" lease -DNO_RESCAN -DCLIENTS=1
broken "$leak" lease -DNO_RESCAN_OF_UNNAMED -DCLIENTS=1
broken "$leak" lease -DNO_SWEEP
broken "$used" lease -DBURY_EARLY
broken "$used" lease -DFORGET_PAGE
broken "$other" lease -DNO_GENERATION

if [ "${TARN_MODELS:-}" = long ]; then
	long='-O2 -DCOLLAPSE' # slower, a third of the memory
	holds lease
	holds lease -DSTORAGES=2 -DOPS=1
fi

rm -f pan* ./*.pml ./*.trail _spin_nvr.tmp
echo "1..$n"
