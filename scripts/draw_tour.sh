#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Draws the pictures of docs/tour and README.md from steps on the simulator: scripts/draw_tour.sh TOOL PROGRAM [--check],
# where TOOL is msstream-overlap and PROGRAM is teach_tour_steps. With --check, nothing is written, and a picture that
# differs is an error.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tool=${1:?expected the path of msstream-overlap} program=${2:?expected the path of teach_tour_steps}
pictures=$root/docs/pictures/tour

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$program" "$folder"
for step in "$folder"/*.json; do
  "$tool" "$step" --quiet --svg-timeline --svg "${step%.json}.svg"
  rm "$step"
done
if [ "${3:-}" = --check ]; then
  diff --brief "$folder" "$pictures" || {
    echo "docs/pictures/tour has other pictures; draw them with: scripts/draw_tour.sh $tool $program" >&2
    exit 1
  }
else
  mkdir -p "$pictures"
  cp "$folder"/*.svg "$pictures"
fi
