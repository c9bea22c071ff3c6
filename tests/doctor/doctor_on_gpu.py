#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs msstream-doctor on a computer with a GPU and checks its report: doctor_on_gpu.py PATH-OF-TOOL [ARGUMENT…].

All lines must be there, and measured values must lie in ranges that every working GPU meets. Further arguments go to
the tool, such as --device 1. Ends with status 1 and a line for each mistake.
"""
import json
import subprocess
import sys
import time

# The ids that a report of a build for CUDA has exactly once.
ONCE = """processors instruction-set numa frequency memory cgroup-memory locked-memory address-space open-files threads
shared-memory huge-pages msstream-variables max-connections build driver devices mps concurrent-kernels priorities
virtual-memory memory-pools green-contexts green-streams host-access graph-updates multicast fp8-products copy-engines nvtx cupti
counters module-loading nccl mpi cuda-libraries nvcc host-compiler cupti-headers nccl-headers
threads-at-once thread-wake-up memory-copy host-issue""".split()
# The ids that a report has once for each GPU.
OF_DEVICE = "device device-memory compute-mode persistence ecc mig link near-processors clocks other-processes".split()
# The measurements of one GPU, with the least and the largest plausible number.
MEASURED = {
    "pinned-h2d": (0.1, 1000), "pinned-d2h": (0.1, 1000), "pageable-h2d": (0.05, 1000), "pageable-d2h": (0.05, 1000),
    "device-copy": (10, 50_000), "launch": (0.3, 100), "issue": (0.3, 200), "replay": (0.5, 1000),
    "hardware-queues": (1, 128), "kernel-overlap": (0, 100), "copy-overlap": (0, 100), "copies-overlap": (0, 100),
}
LIMIT_S = 60


def mistakes(report):
    """Yields what is wrong with a report of a build for CUDA on a computer with a GPU."""
    lines = report["lines"]
    count = sum(line["id"] == "device" and line["section"] == "device" for line in lines)
    if report["build"] != "cuda" or "device" not in report or count == 0:
        yield f"expected a build for CUDA and a GPU, found build {report['build']} and {count} GPUs"
        return
    for level in ("ok", "note", "slow", "bad"):
        found = sum(line["level"] == level for line in lines)
        if report["summary"][level] != found:
            yield f"the summary has {report['summary'][level]} lines of level {level}, found {found}"
    for ids, times in ((ONCE, 1), (OF_DEVICE, count), (MEASURED, 1)):
        for name in ids:
            found = sum(line["id"] == name for line in lines)
            if found != times:
                yield f"{name}: expected {times} lines, found {found}"
    peers = sum(line["id"] == "peer" for line in lines)
    if peers != count - 1:
        yield f"peer: expected {count - 1} lines, found {peers}"
    numbers = {line["id"]: line.get("number") for line in lines if line["section"] == "device_measured"}
    for name, (least, most) in MEASURED.items():
        if name in numbers and (numbers[name] is None or not least <= numbers[name] <= most):
            yield f"{name}: expected {least} to {most}, found {numbers[name]}"
    if (numbers.get("kernel-overlap") or 0) < 10:
        yield f"kernel-overlap: kernels of two streams must run at once, found {numbers.get('kernel-overlap')} %"
    for line in lines:
        if line["level"] != "ok" and not line["advice"]:
            yield f"{line['id']}: level {line['level']} without advice"


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    begin = time.monotonic()
    ended = subprocess.run([*arguments, "--json", "-"], stdout=subprocess.PIPE, check=False, timeout=LIMIT_S)
    seconds = time.monotonic() - begin
    report = json.loads(ended.stdout)
    found = list(mistakes(report))
    if ended.returncode != (1 if report["summary"]["bad"] else 0):
        found.append(f"exit status {ended.returncode} with {report['summary']['bad']} bad lines")
    for line in report["lines"]:
        if line["section"] == "device_measured":
            print(f"{line['level']:5} {line['thing']}: {line['value']}")
    print(f"msstream-doctor took {seconds:.1f} s")
    for text in found:
        print(f"wrong: {text}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
