#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the printers of tools/gdb in gdb: printers_test.py PROGRAM…

Each PROGRAM is objects.cpp, compiled in one way with -g. gdb stops it in look(), and prints each object.
Ends with status 77 (skipped) if there is no gdb.
"""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRINTERS = ROOT / "tools/gdb/msstream_gdb.py"
PAGE = ROOT / "docs/seeing.md"
GARBAGE = pathlib.Path(__file__).resolve().with_name("garbage.py")

# What gdb shows of each object: a regular expression for the whole text.
EXPECTED = {
    "matrix": r"Tensor<float32> \[2, 3\] on host, 24 bytes at 0x[0-9a-f]+ = "
              r"\{values = \{\{1, 2\.5, -3\}, \{4, 5, 6\}\}\}",
    "ids": r"Tensor<int64> \[3\] on host, 24 bytes at 0x[0-9a-f]+ = \{values = \{7, -8, 9\}\}",
    "halves": r"Tensor<float16> \[2\] on host, 4 bytes at 0x[0-9a-f]+ = \{values = \{0\.5, -2\}\}",
    "bytes": r"Tensor<uint8> \[2\] on host, 2 bytes at 0x[0-9a-f]+ = \{values = \{200, 65\}\}",
    "empty": r"Tensor<float32> \[0, 4\] on host, 0 bytes at 0x[0-9a-f]+",
    "large": r"Tensor<float32> \[1048576\] on host, 4,194,304 bytes at 0x[0-9a-f]+.* = "
             r"\{first 200 values = \{1\.5 <repeats 200 times>\}\}",
    "frozen": r"Tensor<float32> \[1\] on host, 4 bytes at 0x[0-9a-f]+, frozen.* = \{values = \{4\}\}",
    "in_flight": r"Tensor<float32> \[2\] on host, 8 bytes at 0x[0-9a-f]+, written by group 0 compute @ \d+, "
                 r"not known to be complete = \{values = \{3, 3\}\}",
    "moved_from": r"<a tensor without memory: moved from>",
    "garbage": r"<not a valid Tensor: element type 165; expected 0 to 5>",
    "zeros": r"<not a valid Tensor: extents \[\] and 0 elements>",
    "stray": r"<not a valid Tensor: Cannot access memory at address 0x[0-9a-f]+>",
    "garbage_group": r"<not a valid StreamGroup: Cannot access memory at address 0xa5a5.*>",
    "garbage_tape": r"<not a valid GradientTape: Cannot access memory at address 0xa5a5.*>",
    "garbage_checkpoint": r"<not a valid checkpoint::Tensors: .*>",
    "device": r"Device of host, \d+ operations on \d+ streams = \{\[0\] = \"?group 0 compute: stream 0, .*"
              r"group 1 compute: stream \d+, \d+ reserved, \d+ launched, \d+ known to be complete.*\}",
    "pool": r"StreamPool of 2 groups = \{\[0\] = StreamGroup group 0 = \{.*\[1\] = StreamGroup group 1 = \{.*\}",
    "group": r"StreamGroup group 1 = \{compute = group 1 compute: stream \d+, .*, h2d = group 1 h2d: .*, d2h = .*\}",
    "stream": r"group 1 compute: stream \d+, (\d+) reserved, \1 launched, \1 known to be complete = "
              r"\{clock = clock \{.*\}\}",
    "event": r"event of stream \d+ @ \d+ = \{clock = clock \{.*stream \d+ @ \d+.*\}\}",
    "scope": r"StreamScope of group 1, opened at .*objects\.cpp:\d+, with its gradients",
    "name_scope": r"NameScope tower, opened at .*objects\.cpp:\d+",
    "tape": r"GradientTape, recording, 1 operation, 0 backwards since clear\(\) = \{\[0\] = \"?tower/scale -> \[2, 3\]\"?\}",
    "checkpoint": r"checkpoint::Tensors, 2 tensors, 48 bytes = \{tower/weight\\n<b> = \"?Tensor<float32> \[2, 3\] on host"
                  r".*ids = \"?Tensor<int64> .*\}",
    "pinned": r"PinnedArray of 3 elements, 12 bytes at 0x[0-9a-f]+ = \{\[0\] = 1, \[1\] = 2, \[2\] = 3\}",
    "shape": r"\[2, 3\]",
    "position": r"stream 3 @ 7",
    "number": r"1\.5",
    "many": r"Device of host, 2 operations on 22\d streams, the first 200 shown = \{\[0\] = .*"
            r"\[199\] = \"?group 89: stream 199, 0 reserved, 0 launched, 0 known to be complete\"?"
            r"(\.\.\.)?\}",
    "late": r"Tensor<float32> \[1\] on host, 4 bytes at 0x[0-9a-f]+, written by group 109 @ 1, "
            r"not known to be complete = \{values = \{5\}\}",
    "last": r"group 109: stream 2\d\d, 1 reserved, 1 launched, 0 known to be complete = "
            r"\{clock = clock \{.*stream 2\d\d @ 1.*\}\}",
}


# Makes the objects' device one whose memory the host cannot read, as far as a printer can tell.
AS_ON_A_GPU = ("set var *((char*)objects.device->engine_.handle_._M_ptr->state_._M_ptr->context._M_ptr->runtime._M_ptr"
               " + (long)&((msstream::detail::Backend*)0)->traits.ref_kind) = 1")
EXPECTED_ON_A_GPU = r"Tensor<float32> \[2, 3\] on host, 24 bytes at 0x[0-9a-f]+"


def gdb(program, commands):
    words = ["gdb", "-nx", "-batch", "-iex", "set auto-load off", "-ex", f"source {PRINTERS}", "-ex", "set width 0",
             "-ex", "break look", "-ex", "run"]
    for command in commands:
        words += ["-ex", command]
    done = subprocess.run(words + [program], capture_output=True, text=True, timeout=300, check=False)
    return done.stdout, done.stderr


def printed(program, names):
    """Returns what gdb prints of each object, by name, and what it writes to standard error."""
    commands = []
    for name in names:
        commands += [f"echo @@{name}@@", f"output *objects.{name}"]
    commands += ["echo @@garbage_bytes@@", f"source {GARBAGE}",
                 AS_ON_A_GPU, "echo @@on_a_gpu@@", "output *objects.matrix"]
    out, err = gdb(program, ["set print pretty off", "set print max-depth 20"] + commands + ["echo @@end@@"])
    parts = re.split(r"@@(\w+)@@", out)
    return dict(zip(parts[1::2], parts[2::2])), err, out


# The object of each variable that docs/seeing.md prints.
ON_THE_PAGE = {"weight": "matrix", "gradient": "in_flight", "scope": "scope", "stream": "stream", "tape": "tape"}


def wrong_on_the_page():
    """Yields what the page shows of its variables that gdb does not print so."""
    blocks = re.findall(r"^```text gdb\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    shown = dict(re.findall(r"^\(gdb\) print (\w+)\n\$\d+ = (.*?)\n(?=\(gdb\)|\Z)", blocks[-1], re.MULTILINE | re.DOTALL))
    if shown.keys() != ON_THE_PAGE.keys():
        yield f"{PAGE}: expected {', '.join(ON_THE_PAGE)}, found {', '.join(shown)}"
    for name, text in shown.items():
        if not re.fullmatch(EXPECTED[ON_THE_PAGE[name]], text.replace("\n", " ")):
            yield f"{PAGE}: {name}: expected {EXPECTED[ON_THE_PAGE[name]]}\n  found    {text}"


def main():
    if wrong := list(wrong_on_the_page()):
        print("\n".join(wrong))
        return 1
    if not shutil.which("gdb"):
        print("skipped: there is no gdb (apt-get install gdb)")
        return 77
    failures = 0
    for program in sys.argv[1:]:
        texts, err, out = printed(program, EXPECTED)
        if "end" not in texts:
            print(f"{program}: gdb did not stop in look():\n{out}\n{err}")
            return 1
        expectations = EXPECTED | {"garbage_bytes": r"garbage: \d+ objects", "on_a_gpu": EXPECTED_ON_A_GPU}
        for name, expected in expectations.items():
            text = texts[name].strip()
            if not re.fullmatch(expected, text, re.DOTALL):
                failures += 1
                print(f"{program}: {name}:\n  expected {expected}\n  found    {text[:1000]}")
        for word in ("Traceback", "Python Exception", "RTTI symbol"):
            if word in out + err:
                failures += 1
                print(f"{program}: gdb reports an error of Python:\n{err}")
        print(f"{pathlib.Path(program).name}: {len(EXPECTED)} objects")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
