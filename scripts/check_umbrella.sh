#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What <msstream/msstream.hpp> costs its user on the host: no header of another library, and no more
# text to compile than the bounds below. Counts are the same on every machine; seconds are not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# There are 236 headers of our own with 17,231 lines, comments left out, and 66 standard headers with 87,000, which
# g++ 12 reads in about two seconds. The bounds leave a fourth for what is added on purpose: raise them in the commit
# that needs it. Lines of the standard library are not bounded: each release of a compiler has others, and includes
# some more of its own headers, for which there is room.
most_own_headers=300
most_own_lines=22000
most_standard_headers=85

preprocess=("${CXX:-g++}" -std=c++20 -DMSSTREAM_CUDA=0 -Iinclude -E -include msstream/msstream.hpp -x c++ /dev/null)
# Names each header once, with its number of lines that are not empty. A line marker, # 12 "file" 1,
# says where what follows it comes from.
headers=$("${preprocess[@]}" | awk '
  /^# [0-9]+ "/ { file = $3; gsub(/"/, "", file); if (!(file in lines)) lines[file] = 0; next }
  NF { ++lines[file] }
  END { for (file in lines) print lines[file], file }' | grep -v ' <.*>$\| /dev/null$')
# Our own are named relative to the root, all others by their full path; a standard one has no ending.
own=$(grep -E '^[0-9]+ include/' <<<"$headers" || true)
standard=$(grep -cE '/c\+\+/[^ /]+/[a-z_]+$' <<<"$headers" || true)
own_headers=$(grep -c . <<<"$own" || true)
own_lines=$(awk '{ lines += $1 } END { print lines + 0 }' <<<"$own")

failed=0
if grep -iE '^[0-9]+ /.*/(cuda|cub|thrust|cublas|cupti|nccl|nvtx|eigen|nlohmann|cli|gtest)[^/]*(\.h|\.hpp|/)' <<<"$headers"; then
  echo "umbrella: a host program gets the headers above, of CUDA or of another library" >&2
  failed=1
fi
bound() {
  echo "umbrella: $2 $1; at most $3"
  # A compiler whose markers are not understood must not pass.
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
