#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks what including <msstream/msstream.hpp> costs a host program: no header of another library,
# and no more text to compile than the bounds below. The check counts headers and lines, which are
# the same on every machine; compile times are not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The umbrella header includes 149 headers of this project with 10,220 lines (without comments) and
# 61 standard headers with 79,000 lines, which g++ 12 reads in about two seconds. The bounds leave
# some room for additions; a commit that needs more raises them. Lines of standard headers
# have no bound: they differ between releases of a compiler. Some releases also include more of
# their own headers, for which the bound leaves room.
most_own_headers=155
most_own_lines=10300
most_standard_headers=85

preprocess=("${CXX:-g++}" -std=c++20 -DMSSTREAM_CUDA=0 -Iinclude -E -include msstream/msstream.hpp -x c++ /dev/null)
# Lists each header once, with its number of lines that are not empty. A line marker of the
# preprocessor, # 12 "file" 1, names the file that the lines after it come from.
headers=$("${preprocess[@]}" | awk '
  /^# [0-9]+ "/ { file = $3; gsub(/"/, "", file); if (!(file in lines)) lines[file] = 0; next }
  NF { ++lines[file] }
  END { for (file in lines) print lines[file], file }' | grep -v ' <.*>$\| /dev/null$')
# Headers of this project have paths relative to the root; all others have absolute paths. A
# standard header has no file extension.
own=$(grep -E '^[0-9]+ include/' <<<"$headers" || true)
standard=$(grep -cE '/c\+\+/[^ /]+/[a-z_]+$' <<<"$headers" || true)
own_headers=$(grep -c . <<<"$own" || true)
own_lines=$(awk '{ lines += $1 } END { print lines + 0 }' <<<"$own")

failed=0
if grep -iE '^[0-9]+ /.*/(cuda|cub|thrust|cublas|cupti|nccl|nvtx|eigen|fmt|nlohmann|cli|gtest)[^/]*(\.h|\.hpp|/)' <<<"$headers"; then
  echo "umbrella: a host program gets the headers above, of CUDA or of another library" >&2
  failed=1
fi
bound() {
  echo "umbrella: $2 $1; at most $3"
  # A count of 0 fails, too: it means that the line markers of the compiler were not understood.
  (($2 > 0 && $2 <= $3)) || failed=1
}
bound "headers of our own" "$own_headers" "$most_own_headers"
bound "lines in them" "$own_lines" "$most_own_lines"
bound "standard headers" "$standard" "$most_standard_headers"
if [ "$failed" != 0 ]; then
  echo "umbrella: too much for who includes everything; the largest of our own:" >&2
  sort -rn <<<"$own" | sed -n 1,5p >&2
fi
exit "$failed"
