#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Downloads a CCCL newer than the CUDA toolkit's, for the tests that must compile with both, and
# prints its include folder. Fails without pip or without a network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=13.3.5.0.6
folder=$PWD/build/cccl-$version
include=$folder/nvidia/cu13/include/cccl
if [ ! -f "$include/cuda/memory_resource" ]; then
  mkdir -p "$folder"
  python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$folder" "nvidia-cuda-cccl==$version" >&2
  python3 -m zipfile -e "$folder"/nvidia_cuda_cccl-*.whl "$folder"
fi
echo "$include"
