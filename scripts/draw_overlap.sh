#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Draws the pictures of docs/overlap.md from the recordings in tests/overlap/recorded/:
# scripts/draw_overlap.sh TOOL, where TOOL is msstream-overlap.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tool=${1:?expected the path of msstream-overlap}

draw() {
  local recording=$1 window=$2 picture=$3
  "$tool" "$root/tests/overlap/recorded/$recording.json.gz" --window "$window" --quiet \
    --svg "$root/docs/pictures/overlap/$picture.svg"
}

mkdir -p "$root/docs/pictures/overlap"
draw driver_allocation_planted 0.5ms:1.6ms driver-allocation
draw pageable_copy_planted 0.1ms:3.7ms pageable-copy
draw pageable_copy_fixed 0.1ms:2.5ms pageable-copy-fixed
draw host_synchronization_planted 0.4ms:1.4ms host-synchronization
draw legacy_stream_planted 0.5ms:2ms legacy-stream
draw launch_two_streams_planted 0.4ms:0.5ms launch-bound
draw copy_engine_planted 3ms:10.5ms copy-engine
draw hardware_queue_planted 0ms:4.2ms hardware-queue
draw multiprocessors_full_planted 0.5ms:2ms multiprocessors-full
draw false_dependency_planted 0.6ms:1.9ms false-dependency
draw false_dependency_fixed 0.5ms:1.6ms false-dependency-fixed
draw both_directions_planted 1ms:6ms one-stream-two-roles
