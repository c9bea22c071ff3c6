#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the format of all source files with clang-format 14; check_format.sh --fix formats them
# instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

format=$(command -v clang-format-14 || command -v clang-format)
action=(--dry-run -Werror)
[ "${1:-}" != --fix ] || action=(-i)
mapfile -d '' files < <(git ls-files -z --cached --others --exclude-standard '*.hpp' '*.cpp' '*.cu' '*.cuh')
printf '%s\0' "${files[@]}" | xargs -0 -n 8 -P "$(nproc)" "$format" "${action[@]}"
echo "format: ${#files[@]} files are as clang-format lays them out"
