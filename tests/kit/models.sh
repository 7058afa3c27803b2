# SPDX-License-Identifier: MIT
#
# What the tests of the models share: a model holds, or is broken. A proof that
# could not fail would prove nothing, so each model is also searched with
# something left out that it needs, and that must be found out.
#
# TARN_MODELS=long adds the large ones (minutes, and 3 GB); =none leaves all of
# them out, for who runs the suite once more over another build.

models=${top_srcdir:?set by tests/run}/tests/models
n=0
how=-O1
export CCACHE_DISABLE=1
read -ra cc <<<"${CC:-cc}"

if [ "${TARN_MODELS:-}" = none ]; then
	echo "1..0 # SKIP TARN_MODELS=none"
	exit 0
fi
command -v spin >/dev/null || { echo "1..0 # SKIP there is no spin"; exit 0; }
cd "$TMPDIR" || exit 1

# Shall the large ones be searched too? They take a third of the memory so.
long() {
	[ "${TARN_MODELS:-}" = long ] && how='-O2 -DCOLLAPSE'
}

# search COMPILER-FLAGS MODEL FLAG...: what the verifier says is in $said.
search() {
	local flags model=$2

	read -ra flags <<<"$1"
	shift 2

	rm -f pan* ./*.trail
	cp "$models/$model.pml" . || return
	said=$(spin -a "$@" "$model.pml" 2>&1 &&
		"${cc[@]}" -w "${flags[@]}" -DSAFETY -DMEMLIM=3000 -o pan \
			pan.c 2>&1 &&
		./pan -m100000 -w22 2>&1)
}

result() { # OK WHAT
	n=$((n + 1))
	echo "$1 $n - $2"
	[ "$1" = ok ] || printf '%s\n' "$said" | head -n 40 | sed 's/^/# /'
}

# All of it was searched, and nothing was found.
holds() { # MODEL FLAG...
	search "$how" "$@"
	if [[ $said == *"errors: 0"* && $said != *"not completed"* ]]; then
		result ok "$* holds"
	else
		result "not ok" "$* holds"
	fi
	printf '%s\n' "$said" | sed -n 's/^ *\([0-9]* states, stored\)/# \1/p'
}

# An assertion fails that says WHY; a model that does not compile is no proof.
# It is found at once, unless the compiler takes its time, or the search goes the
# wrong way first: with from_the_end=yes it begins with the last process.
broken() { # WHY MODEL FLAG...
	local why=$1
	shift

	search "${from_the_end:+-DREVERSE }-O0" "$@"
	if [[ $said == *"assertion violated ("*"$why"* ]]; then
		result ok "$* is found out"
	else
		result "not ok" "$* is found out"
	fi
}

finish() {
	rm -f pan* ./*.pml ./*.trail _spin_nvr.tmp
	echo "1..$n"
}
