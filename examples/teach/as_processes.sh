#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program as several ranks on this machine, each a process, as torchrun does:
#
#     examples/teach/as_processes.sh 3 build/host/examples/teach/teach_data_parallel
#
# The ranks find each other at the port after MASTER_PORT. Without it, calls that run at
# once in one container have different ports, below those that Linux usually gives out itself. Fails if a rank does.
set -u
if [ $# -lt 2 ]; then
  echo "usage: $0 RANKS PROGRAM [ARGUMENT…]" >&2
  exit 2
fi
ranks=$1
shift
export WORLD_SIZE="$ranks" MASTER_ADDR=127.0.0.1 MASTER_PORT="${MASTER_PORT:-$((20000 + $$ % 12000))}"
started=
# The shell starts them without Ctrl-C's signal.
trap 'kill $started 2>/dev/null; exit 130' INT TERM HUP
rank=0
while [ "$rank" -lt "$ranks" ]; do
  RANK=$rank LOCAL_RANK=$rank "$@" &
  started="$started $!"
  rank=$((rank + 1))
done
status=0
for process in $started; do
  wait "$process" || status=1
done
exit "$status"
