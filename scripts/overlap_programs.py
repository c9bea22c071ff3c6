#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records real programs on a GPU for the pages on overlap, and times what was changed because of the reports.

    scripts/overlap_programs.py --build build/cuda --out FOLDER             # record, and write the reports
    scripts/overlap_programs.py --build build/cuda --out FOLDER --rates     # time the programs, each beside the others

Recording writes FOLDER/programs.md with a report of each program as the terminal shows it, and the recordings beside
it, so that a later version of the tool can report on them again. Timing writes FOLDER/rates.md: the median, least and
largest of the rows a second in rounds, in each of which every way runs once.

The status is 1 if a program failed; the others are recorded and timed nevertheless.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time
import typing

from planted_overlap import device_name, execute

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Program(typing.NamedTuple):
    name: str
    title: str
    command: tuple  # of the folder of examples, or a script of the repository
    steps: int = 0  # enough for the time that is recorded; 0: the program ends by itself
    record: tuple = ("--skip", "1.2", "--duration", "0.03")  # a steady window after the start


def wdl(name, title, steps, *arguments):
    return Program(name, f"train_wdl, {title}", ("train_wdl", *arguments), steps)


RECORDED = [
    wdl("wdl1", "one group", 3000, "--stream-groups", "1"),
    wdl("wdl1_each", "one group, an update for each table", 3000, "--stream-groups", "1", "--update-each-table"),
    wdl("wdl1_fused", "one group, fused tables", 12000, "--stream-groups", "1", "--tables", "fused"),
    wdl("wdl4", "four groups", 3500, "--stream-groups", "4"),
    wdl("wdl4_captured", "four groups, captured", 14000, "--stream-groups", "4", "--capture"),
    wdl("wdl1_fused_captured", "fused tables, captured", 40000, "--stream-groups", "1", "--tables", "fused", "--capture"),
    Program(
        "ple7_captured", "train_ple, seven groups, captured", ("train_ple", "--stream-groups", "7", "--capture"), 10000
    ),
    Program("serve", "serve_wdl, 16 replicas", ("serve_wdl", "--replicas", "16", "--seconds", "3")),
    Program(
        "torch",
        "PyTorch's eager loop",
        ("benchmarks/baselines/torch_census_step.py", "--in-range", "10"),
        record=("--range", "steady"),
    ),
    *(
        Program(
            f"copies_{memory}",
            f"Copies beside matrix products, {memory} memory",
            ("examples/teach/overlap/planted.py", "tutorial_copies", *fixed),
            record=("--range", "measured"),
        )
        for memory, fixed in (("pageable", ()), ("pinned", ("--fixed",)))
    ),
]
# The ways of issuing that are timed: a program, its arguments, and what was changed.
UPDATES = (("--update-each-table",), ())
TIMED = [
    *(("train_wdl", ("--stream-groups", groups, *update)) for groups in "14" for update in UPDATES),
    *(("train_wdl", ("--stream-groups", "4", "--capture", *update)) for update in UPDATES),
    ("train_wdl", ("--stream-groups", "1", "--tables", "fused")),
    ("train_wdl", ("--stream-groups", "1", "--capture")),
    ("train_wdl", ("--stream-groups", "1", "--capture", "--tables", "fused")),
    *(("train_ple", ("--stream-groups", "1", *update)) for update in UPDATES),
    *(("train_ple", ("--stream-groups", "7", "--capture", *update)) for update in UPDATES),
]
ROWS = 200_000  # of the data of timed programs, of which a fifth is held out
BATCHES_OF_AN_EPOCH = 625  # at least, of a program's own number of rows, 400,000, at batch 512


def command_of(program, build):
    first, *rest = program.command
    if first.endswith(".py"):
        return [sys.executable, str(ROOT / first), *rest]
    command = [str(build / "examples" / first / first), *rest, "--quiet"]
    if program.steps:
        command += ["--steps", str(program.steps), "--epochs", str(program.steps // BATCHES_OF_AN_EPOCH + 1)]
        command += ["--holdout", "0"]  # so that the window has no test of an epoch
    return command


def shown(command):
    """Returns a command as a reader would type it."""
    names = [pathlib.Path(word).name if "/" in word else word for word in command]
    return " ".join("python3" if word == pathlib.Path(sys.executable).name else word for word in names)


def record(program, options):
    """Records a program, and returns its report as Markdown."""
    command = command_of(program, options.build)
    target = options.out / f"{program.name}.json.gz"
    execute(
        [str(options.tool), "run", *program.record, "--force", "--output", str(target), "--", *command],
        options.program_timeout,
    )
    report = execute([str(options.tool), str(target)], options.program_timeout)
    recorded = f"msstream-overlap run {' '.join(program.record)} -- {shown(command)}"
    block = "\n".join((f"```text measured msstream-overlap {target.name}", *map(str.rstrip, report.rstrip().splitlines()), "```"))
    return f"## {program.title}\n\n`{recorded}`\n\n{block}\n"


def record_all(options):
    parts, failed = [f"Recorded on {device_name()}.\n"], []
    for program in RECORDED:
        if options.only not in program.name:
            continue
        begin = time.monotonic()
        try:
            parts.append(record(program, options))
            print(f"{program.name}: {time.monotonic() - begin:.1f} s", file=sys.stderr, flush=True)
        except (OSError, RuntimeError) as error:
            failed.append(f"{program.name}: {error}")
            print(failed[-1], file=sys.stderr, flush=True)
    if failed:
        parts.append("Not recorded:\n\n" + "\n".join(f"- {line}" for line in failed) + "\n")
    (options.out / "programs.md").write_text("\n".join(parts))
    return 1 if failed else 0


def text_of(program, arguments):
    """Returns a way that is timed as rates.md has it."""
    return " ".join((program, *arguments))


def rows_a_second(program, arguments, options):
    """Returns the rows a second of the last epoch of two: the first one makes memory pools grow."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        execute(
            [
                str(options.build / "examples" / program / program),
                *arguments,
                "--rows",
                str(ROWS),
                "--epochs",
                "2",
                "--quiet",
                "--report",
                str(report),
            ],
            options.program_timeout,
        )
        return json.loads(report.read_text())["epochs"][-1]["rows_per_s"]


def rates_table(rates):
    """Returns a table in Markdown: `rates` has the rows a second of each way, by its text."""
    lines = ["| program | rows a second, median | smallest and largest | runs |", "| --- | ---: | ---: | ---: |"]
    for way, values in rates.items():
        if values:
            extremes = f"{min(values):,.0f} and {max(values):,.0f}"
            lines.append(f"| `{way}` | {statistics.median(values):,.0f} | {extremes} | {len(values)} |")
        else:
            lines.append(f"| `{way}` | not measured | | 0 |")
    return "\n".join(lines) + "\n"


def time_all(options):
    ways = [way for way in TIMED if options.only in text_of(*way)]
    rates = {text_of(*way): [] for way in ways}
    begin, longest, rounds, failed = time.monotonic(), 0.0, 0, set()
    while rounds < options.rounds and (rounds == 0 or time.monotonic() - begin + longest < options.seconds):
        started = time.monotonic()
        # The order turns, so that no way always follows the same one.
        for program, arguments in ways[:: -1 if rounds % 2 else 1]:
            way = text_of(program, arguments)
            if way in failed:
                continue
            try:
                rates[way].append(rows_a_second(program, arguments, options))
            except (OSError, RuntimeError, LookupError, ValueError) as error:
                failed.add(way)
                print(f"{way}: {error}", file=sys.stderr, flush=True)
        longest = max(longest, time.monotonic() - started)
        rounds += 1
    text = f"Measured on {device_name()}; {ROWS} rows; rounds: {rounds}.\n\n{rates_table(rates)}"
    (options.out / "rates.md").write_text(text)
    print(text, end="")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder of a build with MSSTREAM_CUDA=ON")
    parser.add_argument("--tool", type=pathlib.Path, help="msstream-overlap; default: that of the build")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the folder for what is written")
    parser.add_argument("--rates", action="store_true", help="time the programs in place of recording them")
    parser.add_argument("--rounds", type=int, default=5, help="of --rates, at most")
    parser.add_argument("--seconds", type=float, default=120, help="after which --rates begins no further round")
    parser.add_argument(
        "--only", default="", help="only programs whose name, or with --rates whose command, contains this"
    )
    parser.add_argument("--program-timeout", type=float, default=60, help="seconds for one run")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.tool = (options.tool or options.build / "tools" / "overlap" / "msstream-overlap").resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    return (time_all if options.rates else record_all)(options)


if __name__ == "__main__":
    sys.exit(main())
