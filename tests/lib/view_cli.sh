#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# tarn view as a person and a script meet it: the drawing, the JSON line as it
# is documented, exit statuses, and errors on stderr.
# shellcheck disable=SC1091
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"

seen=$(printf 'F32[2,3,4]\t[:, 1:, ::2]\nF32[2,3]\t.flop()\nnone\n' |
	$TARN view --batch)
is 0 $? "a batch with errors in it is done all the same"
is '{"dtype":"F32","shape":[2,2,2],"strides":[12,4,2],"offset":4,"numel":8,"contiguous":false,"copy":false}' \
	"$(sed -n 1p <<<"$seen")" "the line is as documented"
has '{"error":"expression' "$(sed -n 2p <<<"$seen")" "an error is a line too"
has '{"error":"a line is SPEC, a tab and EXPR' "$(sed -n 3p <<<"$seen")" \
	"so is a line without a tab"
is "" "$($TARN view --batch </dev/null)" "no questions, no answers"
seen=$(printf 'F32[4]\t[0]\0[0]\n' | $TARN view --batch)
has '{"error":"a line is text' "$seen" "a line with a zero byte is an error"
coproc ask { exec $TARN view --batch; }
echo 'F32[4]	[1:]' >&"${ask[1]}"
seen=
read -r -t 30 seen <&"${ask[0]}"
has '"shape":[3]' "$seen" "each question is answered before the next is asked"
to=${ask[1]}
exec {to}>&-
wait
seen=$(printf 'F32[\xff]\t\n' | $TARN view --batch)
has '{"error":' "$seen" "bytes that are not UTF-8 are an error in JSON"

seen=$($TARN view --json 'F32[2,3]' '.transpose(0,1).reshape(6)')
has '"copy":true' "$seen" "--json tells of the copy"

seen=$($TARN view 'F32[3,4]' '[1:, ::-2]')
is 0 $? "a drawing is done"
has 'F32[2, 2]:(4, -2)+7' "$seen" "the drawing has the layout"
has '    7  5   → -2
   11  9   ↓ +4' "$seen" "the view with its steps"
has '   0: · · · ·
   4: · 1 · 0
   8: · 3 · 2' "$seen" "the storage with its turns"
has 'splits, then merges: [6, 8]
        split dim 0 into 2 → [2, 3, 8]
        merge dims 1 to 2 → [2, 24]' \
	"$($TARN view 'F32[6,8]' '.reshape(2,24)')" "a reshape is explained"
has 'only merges: [2, 3, 4, 5]
        merge dims 0 to 1 → [6, 4, 5]
        merge dims 1 to 2 → [6, 20]' \
	"$($TARN view 'F32[2,3,4,5]' '.reshape(6,20)')" \
	"a reshape is explained merge by merge"
seen=$($TARN view 'F32[6,8]' '.permute(1,0).reshape(48)')
has 'F32[48]  (a copy)
      only merges: [8, 6]
        merge dims 0 to 1 → [48]
          needs a copy: dim 0 steps by 1, not by the 48 that dim 1 takes' \
	"$seen" "it says which step needs a copy, and why"
has 'From here on the storage is that of the copy' "$seen" \
	"and which storage is drawn"
has 'the shape is the same: [2, 4, 3]' \
	"$($TARN view 'F32[2,4,3]' '.reshape(2,-1,3)')" \
	"a reshape to the same shape has no steps"
has 'through one flat dimension' \
	"$($TARN view 'F32[6,8]' '.reshape(4,12)')" "also one without a refinement"
has 'first (+: and again)' "$($TARN view 'F32[3,1]' '.expand(3,2)')" \
	"elements that are visited again"
has 'Too large to draw' "$($TARN view 'F32[1000,1000]' '')" \
	"a layout that is too large is not drawn"
seen=$(LC_ALL=C $TARN view 'F32[3,4]' '[1:, ::-2]' | tr -d '\n[:print:]')
is "" "$seen" "nothing but ASCII where the terminal has no more"
seen=$($TARN view 'F32[6,8]' '.reshape(2,24)')
has '   24 25 26 27 28 29 30 31 32 33 34  … 37' "$seen" \
	"of long rows the middle is left out"
has '    …
  2000: 0 · 1 ·
  2004: 2 · 3 ·
    …' "$($TARN view 'F32[1000,4]' '[500:502,::2]' | sed 's/^ *…/    …/')" \
	"and of a storage what is not reached"
seen=$($TARN view 'F32[100,2,2]' '[:30]')
has '  [5, :, :]
    20  21   → +1
    22  23   ↓ +2
  …
  [24, :, :]' "$seen" "and of many planes the middle ones"
has '1 element, 4 bytes' "$($TARN view 'F32[]' '')" "one element is no elements"
long=0
for wide in 'F32[7,9,8] .permute(2,0,1)[0]' 'F32[2,3,4,5] .reshape(6,20)' \
	'F32[999,999] ' 'F32[512] ' 'F32[2,2,2,2,2,2,2,2,2] '; do
	now=$($TARN view "${wide%% *}" "${wide#* }" | wc -L)
	[ "$now" -le "$long" ] || long=$now
done
n=$((n + 1))
[ "$long" -le 80 ] && echo "ok $n - 80 columns are enough" ||
	echo "not ok $n - 80 columns are enough: $long"

seen=$($TARN view 'F32[4]' '[9]' 2>&1 >/dev/null)
is 1 $? "an error is exit status 1"
has 'tarn: index: index 9 is out of range' "$seen" "the error is a sentence"
$TARN view 'F32[4]' >/dev/null 2>&1
is 2 $? "a missing argument is exit status 2"
$TARN view --flop >/dev/null 2>&1
is 2 $? "so is an unknown option"
seen=$($TARN view --help)
is 0 $? "--help is done"
has 'Usage: tarn view' "$seen" "--help prints the usage"
echo "1..$n"
