#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Each public header must stand alone: a program that includes just one of
# them, first and nothing else, compiles as strict C17 and as C++17. A header
# that leans on its neighbour breaks for the user who sorts includes.
#
# The code in the comments of each header compiles too: blocks that are indented
# by a tab and call the library. "..." stands for what the reader fills in.
#
# A compiler reports a result that is ignored, unless the comment of a function
# says that it may be, or that the function cannot fail.

include=${top_srcdir:?set by tests/run}/lib/include
out=$TMPDIR/out
export CCACHE_DISABLE=1 # it would leave files of its own here
count=0

# A compiler that is not there is a skip; one that is there must agree.
try() { # WHAT HEADER COMPILER FLAG...
	local what=$1 header=$2
	shift 2

	count=$((count + 1))
	if ! command -v "$1" >/dev/null; then
		echo "ok $count # SKIP $header as $what: there is no $1"
	elif printf '#include <tarn/%s>\nint unit(void);\n' "$header" |
		"$@" -Wall -Wextra -Werror \
		-pedantic-errors -fsyntax-only -I"$include" \
		-I"$top_srcdir/mpi/include" - >"$out" 2>&1; then
		echo "ok $count - $header as $what"
	else
		echo "not ok $count - $header as $what"
		sed 's/^/# /' "$out"
	fi
}

read -ra cc <<<"${CC:-cc}"
read -ra cxx <<<"${CXX:-g++}"
# That of libtarn-mpi which needs no header of MPI's, too.
for path in "$include"/tarn/*.h "$top_srcdir/mpi/include/tarn/mpi_load.h"; do
	try C17 "${path##*/}" "${cc[@]}" -std=c17 -x c
	try C++17 "${path##*/}" "${cxx[@]}" -std=c++17 -x c++
done

# What the code uses and does not declare.
names='#include <stdio.h>
#include <tarn/tarn.h>
#include <tarn/report.h>
void fill(void *data);
extern tarn_store *store;
extern tarn_stream *s;
extern tarn_tensor *t, *dst, *src;
extern tarn_channel *c;
extern tarn_item *item;
extern const int64_t shape[2];
extern struct tarn_completion done[8];
extern uint64_t my_tag, g;
extern tarn_data *data;
extern int r, n, n_done;
void code(void);'

# The blocks of a header, each in braces: what one declares, another may too.
code_of() { # PATH
	awk '
	function put() {
		if (block ~ /tarn_[a-z_]*\(/)
			printf "{\n%s}\n", block
		block = ""
	}
	/^ \*\t/ {
		sub(/^ \*\t/, "")
		sub(/\.\.\. .*/, "")
		block = block $0 "\n"
		next
	}
	!/^ \*$/ { put() }
	END { put() }' "$1"
}

# DLPack's own header, or the copy that PyTorch installs, before tarn's and behind
# them: both declare DLPack's structs.
other=
for try in dlpack/dlpack.h ATen/dlpack.h; do
	[ -z "$other" ] && printf '#include <%s>\n' "$try" |
		"${cc[@]}" -fsyntax-only -x c - 2>/dev/null && other=$try
done
together() { # LANGUAGE HEADERS COMPILER FLAG...
	local language=$1 headers=$2
	shift 2

	count=$((count + 1))
	# shellcheck disable=SC2086 # a list of words
	if [ -z "$other" ]; then
		echo "ok $count # SKIP with DLPack's header as $language:" \
			"there is no <dlpack/dlpack.h> (libdlpack-dev)"
	elif printf '#include <%s>\n' $headers |
		"$@" -fsyntax-only -I"$include" - >"$out" 2>&1; then
		echo "ok $count - $headers as $language"
	else
		echo "not ok $count - $headers as $language"
		sed 's/^/# /' "$out"
	fi
}
for headers in "$other tarn/tarn.h" "tarn/tarn.h $other" \
	"tarn/dlpack.h $other tarn/dlpack_abi.h"; do
	together C17 "$headers" "${cc[@]}" -std=c17 -x c
	together C++17 "$headers" "${cxx[@]}" -std=c++17 -x c++
done

found=0
for path in "$include"/tarn/*.h; do
	code=$(code_of "$path")
	[ -n "$code" ] || continue
	found=$((found + 1))
	count=$((count + 1))
	if printf '%s\nvoid code(void)\n{\n%s\n}\n' "$names" "$code" |
		"${cc[@]}" -std=gnu17 -Wall -Wno-unused -Werror -fsyntax-only \
			-I"$include" -x c - >"$out" 2>&1; then
		echo "ok $count - the code in the comments of ${path##*/} compiles"
	else
		echo "not ok $count - the code in the comments of ${path##*/}" \
			"compiles"
		sed 's/^/# /' "$out"
	fi
done
count=$((count + 1))
[ "$found" -ge 5 ] || printf 'not '
echo "ok $count - $found headers have code in their comments, 5 at least"

# The functions with an int that is neither checked nor all that they give, and
# whose comment does not allow that. Each declaration has the comment above it.
unchecked=$(cat "$include"/tarn/*.h | awk '
	/^\/\*/ { comment = "" }
	/^\/\*/, /\*\// { comment = comment " " $0; next }
	/^TARN_PUBLIC int / { declaration = "" ; inside = 1 }
	inside { declaration = declaration " " $0 }
	inside && /;$/ {
		inside = 0
		gsub(/[ *]+/, " ", comment)
		if (declaration !~ /TARN_(MUST_CHECK|CONST|PURE)/ &&
			comment !~ /may ignore|may be ignored|cannot fail/)
			print declaration
	}')
count=$((count + 1))
if [ -z "$unchecked" ]; then
	echo "ok $count - results that may be ignored are said to be"
else
	echo "not ok $count - results that may be ignored are said to be"
	printf '%s\n' "$unchecked" | sed 's/^/# seen: /'
fi
rm -f "$out"
echo "1..$count"
