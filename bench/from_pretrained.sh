#!/bin/sh
# SPDX-License-Identifier: MIT
#
# from_pretrained of transformers beside itself after tarn.install(); see
# from_pretrained.py. TARN_BENCH_PYTHON is the Python that has transformers.
set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/tarn-bench-from-pretrained.XXXXXX")
trap 'rm -rf "$folder"' EXIT
python=${TARN_BENCH_PYTHON:-python3}

if ! "$python" -c 'import torch, transformers' 2>/dev/null; then
	echo "$python has no transformers; name one with TARN_BENCH_PYTHON"
	exit 0
fi
PYTHONPATH=$PWD/python${PYTHONPATH:+:$PYTHONPATH}
PATH=$PWD/cli:$PATH
HF_HUB_OFFLINE=1
export PYTHONPATH PATH HF_HUB_OFFLINE
"$python" "$(dirname "$0")/from_pretrained.py" "$folder"
