#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs an example program, by default train_wdl, with the arguments: scripts/train.sh [PROGRAM] [ARGUMENT…].
# `scripts/run.sh --help` lists the programs.
set -euo pipefail
run=$(dirname "${BASH_SOURCE[0]}")/run.sh
case ${1-} in
  '' | -*) exec "$run" train_wdl "$@" ;;
  *) exec "$run" "$@" ;;
esac
