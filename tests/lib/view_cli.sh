#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# tarn view as a person and a script meet it: the drawing, the JSON line as it
# is documented, exit statuses, and errors on stderr.
# shellcheck disable=SC1091
. "${top_srcdir:?set by tests/run}/tests/kit/cli.sh"

seen=$(printf 'F32[2,3,4]\t[:, 1:, ::2]\nF32[2,3]\t.flop()\nnone\n' |
	$TARN view --batch)
is 0 $? "view --batch with errors in it succeeds"
is '{"dtype":"F32","shape":[2,2,2],"strides":[12,4,2],"offset":4,"numel":8,"contiguous":false,"copy":false}' \
	"$(sed -n 1p <<<"$seen")" "view --batch prints a line as documented"
has '{"error":"expression' "$(sed -n 2p <<<"$seen")" \
	"view --batch prints an error as a line"
has '{"error":"a line is SPEC, a tab and EXPR' "$(sed -n 3p <<<"$seen")" \
	"view --batch prints a line without a tab as an error"
is "" "$($TARN view --batch </dev/null)" \
	"view --batch without input prints nothing"
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
has '"copy":true' "$seen" "view --json says that a reshape copies"

seen=$($TARN view 'F32[3,4]' '[1:, ::-2]')
is 0 $? "view draws a view"
has 'F32[2, 2]:(4, -2)+7' "$seen" "the drawing has the layout"
has '    7  5   → -2
   11  9   ↓ +4' "$seen" "the drawing has the view with its steps"
has '   0: · · · ·
   4: · 1 · 0
   8: · 3 · 2' "$seen" "the drawing has the storage with the view's order"
has 'splits, then merges: [6, 8]
        split dim 0 into 2 → [2, 3, 8]
        merge dims 1 to 2 → [2, 24]' \
	"$($TARN view 'F32[6,8]' '.reshape(2,24)')" \
		"view explains a reshape by splits and merges"
has 'only merges: [2, 3, 4, 5]
        merge dims 0 to 1 → [6, 4, 5]
        merge dims 1 to 2 → [6, 20]' \
	"$($TARN view 'F32[2,3,4,5]' '.reshape(6,20)')" \
	"view explains a reshape merge by merge"
seen=$($TARN view 'F32[6,8]' '.permute(1,0).reshape(48)')
has 'F32[48]  (a copy)
      only merges: [8, 6]
        merge dims 0 to 1 → [48]
          needs a copy: dim 0 steps by 1, not by the 48 that dim 1 takes' \
	"$seen" "view says which step needs a copy, and why"
has 'From here on the storage is that of the copy' "$seen" \
	"view says that the copy's storage is drawn"
has 'the shape is the same: [2, 4, 3]' \
	"$($TARN view 'F32[2,4,3]' '.reshape(2,-1,3)')" \
	"a reshape to the same shape has no steps"
has 'through one flat dimension' \
	"$($TARN view 'F32[6,8]' '.reshape(4,12)')" \
		"a reshape through one flat dimension is explained"
has 'first (+: and again)' "$($TARN view 'F32[3,1]' '.expand(3,2)')" \
	"view marks elements that are visited again"
has 'Too large to draw' "$($TARN view 'F32[1000,1000]' '')" \
	"a layout that is too large is not drawn"
seen=$(LC_ALL=C $TARN view 'F32[3,4]' '[1:, ::-2]' | tr -d '\n[:print:]')
is "" "$seen" "view draws in ASCII where the locale is C"
seen=$($TARN view 'F32[6,8]' '.reshape(2,24)')
has '   24 25 26 27 28 29 30 31 32 33 34  … 37' "$seen" \
	"view leaves out the middle of long rows"
has '    …
  2000: 0 · 1 ·
  2004: 2 · 3 ·
    …' "$($TARN view 'F32[1000,4]' '[500:502,::2]' | sed 's/^ *…/    …/')" \
	"view leaves out what the view does not reach"
seen=$($TARN view 'F32[100,2,2]' '[:30]')
has '  [5, :, :]
    20  21   → +1
    22  23   ↓ +2
  …
  [24, :, :]' "$seen" "view leaves out the middle of many planes"
has '1 element, 4 bytes' "$($TARN view 'F32[]' '')" \
	"view counts one element in the singular"
long=0
for wide in 'F32[7,9,8] .permute(2,0,1)[0]' 'F32[2,3,4,5] .reshape(6,20)' \
	'F32[999,999] ' 'F32[512] ' 'F32[2,2,2,2,2,2,2,2,2] '; do
	now=$($TARN view "${wide%% *}" "${wide#* }" | wc -L)
	[ "$now" -le "$long" ] || long=$now
done
n=$((n + 1))
[ "$long" -le 80 ] && echo "ok $n - view fits in 80 columns" ||
	echo "not ok $n - view fits in 80 columns: $long"

seen=$($TARN view 'F32[4]' '[9]' 2>&1 >/dev/null)
is 1 $? "view with an error exits with 1"
has 'tarn: index: index 9 is out of range' "$seen" \
	"view's error names the index and the range"
$TARN view 'F32[4]' >/dev/null 2>&1
is 2 $? "view without an expression exits with 2"
$TARN view --flop >/dev/null 2>&1
is 2 $? "view with an unknown option exits with 2"
seen=$($TARN view --help)
is 0 $? "view --help succeeds"
has 'Usage: tarn view' "$seen" "view --help prints the usage"
echo "1..$n"
