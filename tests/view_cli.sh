#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# tarn view as a person and a script meet it: the drawing, the JSON line as it
# is documented, exit statuses, and errors on stderr.
TARN=${TARN:-./cli/tarn}
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

seen=$(printf 'F32[2,3,4]\t[:, 1:, ::2]\nF32[2,3]\t.flop()\nnone\n' |
	$TARN view --batch)
is 0 $? "a batch with errors in it is done all the same"
is '{"dtype":"F32","shape":[2,2,2],"strides":[12,4,2],"offset":4,"numel":8,"contiguous":false,"copy":false}' \
	"$(sed -n 1p <<<"$seen")" "the line is as documented"
has '{"error":"expression' "$(sed -n 2p <<<"$seen")" "an error is a line too"
has '{"error":"a line is SPEC, a tab and EXPR' "$(sed -n 3p <<<"$seen")" \
	"so is a line without a tab"
is "" "$($TARN view --batch </dev/null)" "no questions, no answers"
seen=$(printf 'F32[\xff]\t\n' | $TARN view --batch)
has '{"error":' "$seen" "bytes that are not UTF-8 are an error in JSON"

seen=$($TARN view --json 'F32[2,3]' '.transpose(0,1).reshape(6)')
has '"copy":true' "$seen" "--json tells of the copy"

seen=$($TARN view 'F32[3,4]' '[1:, ::-2]')
is 0 $? "a drawing is done"
has 'F32[2, 2]:(4, -2)+7' "$seen" "it has the layout"
has '    7  5   → -2
   11  9   ↓ +4' "$seen" "the view with its steps"
has '   0: · · · ·
   4: · 1 · 0
   8: · 3 · 2' "$seen" "the storage with its turns"
has 'splits, then merges: [6, 8]
        split dim 0 into 2 → [2, 3, 8]
        merge dims 1 to 2 → [2, 24]' \
	"$($TARN view 'F32[6,8]' '.reshape(2,24)')" "a reshape is explained"
has 'through one flat dimension' \
	"$($TARN view 'F32[6,8]' '.reshape(4,12)')" "also one without a refinement"
has 'first (+: and again)' "$($TARN view 'F32[3,1]' '.expand(3,2)')" \
	"elements that are visited again"
has 'Too large to draw' "$($TARN view 'F32[1000,1000]' '')" "what is too large"
seen=$(LC_ALL=C $TARN view 'F32[3,4]' '[1:, ::-2]' | tr -d '\n[:print:]')
is "" "$seen" "nothing but ASCII where the terminal has no more"
long=$($TARN view 'F32[7,9,8]' '.permute(2,0,1)[0]' | wc -L)
n=$((n + 1))
[ "$long" -le 80 ] && echo "ok $n - 80 columns are enough" ||
	echo "not ok $n - 80 columns are enough: $long"

seen=$($TARN view 'F32[4]' '[9]' 2>&1 >/dev/null)
is 1 $? "an error is exit status 1"
has 'tarn view: index: index 9 is out of range' "$seen" "and a sentence"
$TARN view 'F32[4]' >/dev/null 2>&1
is 2 $? "a missing argument is exit status 2"
$TARN view --flop >/dev/null 2>&1
is 2 $? "so is an unknown option"
seen=$($TARN view --help)
is 0 $? "--help is done"
has 'Usage: tarn view' "$seen" "and helps"
echo "1..$n"
