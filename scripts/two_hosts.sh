#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains on ranks of two hosts, which are two network namespaces of this machine with a cable between
# them, and compares the result with that of ranks that are threads: scripts/two_hosts.sh [program].
# The ranks find each other by MASTER_ADDR, and then by MPI, if the program and the machine have it.
# Needs root and `ip`; without them it says so and succeeds.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
program=${1:-$root/build/host/examples/teach/teach_data_parallel}
[ -x "$program" ] || die "there is no $program; build it first"

first=msstream-$$-0 second=msstream-$$-1
remove() {
  ip netns del "$first" 2>/dev/null || true
  ip netns del "$second" 2>/dev/null || true
}
trap remove EXIT
if ! ip netns add "$first" 2>/dev/null || ! ip netns add "$second" 2>/dev/null; then
  say "SKIPPED: network namespaces are not to be had here (root and iproute2 are needed)"
  exit 0
fi
ip -n "$first" link add cable type veth peer name cable netns "$second"
address=10.213.7
for host in 0 1; do
  name=msstream-$$-$host
  ip -n "$name" address add "$address.$((host + 1))/24" dev cable
  ip -n "$name" link set cable up
  ip -n "$name" link set lo up
done

# Rank 0 reaches its own store by the loopback device, as on hosts that give their name 127.0.1.1.
results=$(mktemp -d)
trap 'remove; rm -rf "$results"' EXIT
export WORLD_SIZE=3 MASTER_PORT=29500
rank() {
  local host=$1 master=$2
  export RANK=$3 LOCAL_RANK=$4 MASTER_ADDR=$master
  ip netns exec "msstream-$$-$host" "$program" >"$results/$RANK"
}
rank 0 127.0.0.1 0 0 &
rank 1 "$address.1" 1 0 &
rank 1 "$address.1" 2 1 &
status=0
for process in $(jobs -p); do
  wait "$process" || status=1
done
[ "$status" = 0 ] || die "a rank has failed"
unset WORLD_SIZE
"$program" >"$results/threads"
cmp "$results/0" "$results/threads" || die "ranks on two hosts have another result than threads"
say "three ranks on two hosts have the result of three threads: $(cat "$results/0")"

# mpirun starts the ranks of another host by an agent, which is usually ssh. Host names differ, too.
if ! mpirun --version 2>/dev/null | grep -q 'Open MPI' || ! grep -q msstream_finds_by_mpi "$program"; then
  say "MPI between the hosts left out: it needs Open MPI, and a program that was built with MPI"
  exit 0
fi
cat >"$results/agent" <<END
#!/bin/sh
shift
exec ip netns exec $second unshare --uts sh -c "hostname second; \$*"
END
chmod +x "$results/agent"
unset MASTER_ADDR MASTER_PORT RANK LOCAL_RANK
# shellcheck disable=SC2016  # the inner shell expands its parameters
ip netns exec "$first" unshare --uts sh -c 'hostname first; exec mpirun "$@"' mpirun \
  --allow-run-as-root --oversubscribe --mca plm_rsh_agent "$results/agent" \
  --host "first:1,$address.2:2" "$program" >"$results/mpi" || die "a rank has failed, started by mpirun"
cmp "$results/mpi" "$results/threads" || die "ranks of mpirun on two hosts have another result than threads"
say "three ranks of mpirun on two hosts have it, too"
