#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes measurements of the suite ops_table to the last column of the table in docs/ops.md.

ops_table.py RESULTS.json docs/ops.md

The results, which may be compressed (.json.gz), are those of one run of the whole suite on a GPU:

    ops_table_benchmark --benchmark_repetitions=3 --benchmark_out=ops_table.json --benchmark_out_format=json

Each number is the median over the repetitions. A cell is written as a whole, or from its last semicolon on if the row
has numbers of other suites too. All other rows stay as they are.
"""
import argparse
import itertools
from dataclasses import dataclass
from pathlib import Path

from summarise_benchmarks import number, read_suite

SUITE = "ops_table"
# The numbers of a benchmark that are shown: the key in its results, the format, and the unit.
COPY = ("of_copy", lambda value: f"{value:.2f}", "of a copy's rate")
MICROSECONDS = ("time_ns", lambda value: number(value / 1e3), "µs")
TFLOPS = ("TFLOPs", number, "TFLOP/s")

BATCHES = ("batch:2048", "batch:8192")
WIDTHS = ("width:16", "width:128", "width:1024", "width:4096")
LENGTHS = ("even", "power_law")


@dataclass(frozen=True)
class Numbers:
    """Numbers of one kind in a cell, in front of which stands a title."""

    title: str
    cases: tuple
    kind: tuple

    def text(self, rows):
        key, shown, _ = self.kind
        return f"{self.title} {' / '.join(shown(median_of(rows, case, key)) for case in self.cases)}"


@dataclass(frozen=True)
class Row:
    """The text of a row's last cell. `adds` says that the cell has numbers of other suites in front, up to its last
    semicolon if it has one. A unit stands behind the last of several numbers of one kind.
    """

    numbers: tuple
    adds: bool = False

    def cell(self, before, rows):
        parts = [", ".join(each.text(rows) for each in of_kind) + f" {unit}"
                 for (_, _, unit), of_kind in itertools.groupby(self.numbers, key=lambda each: each.kind)]
        text = ", ".join(parts)
        front, semicolon, _ = before.rpartition(";")
        return f"{front if semicolon else before}; {text}" if self.adds else text


def median_of(rows, case, key):
    """Returns the median of a number of a case, whose benchmark is named `ops_table/<runtime>/<case>`."""
    for name, row in rows.items():
        if name.split("/", 2)[2] == case:
            return row[key].median
    raise ValueError(f"the results have no benchmark {case}; run the whole suite {SUITE} on a GPU")


def each(stem, ends):
    return tuple(f"{stem}/{end}" for end in ends)


def with_gradients(*names):
    return tuple(case for name in names for case in (name, f"{name}_gradient"))


def copies(*names):
    """Returns the shares of a copy's rate of cases that are named as their operations are."""
    return tuple(Numbers(f"`{name}`", (name,), COPY) for name in names)


def beside_gradients(first, *names):
    """Returns the shares of a copy's rate of operations, each beside its gradient."""
    return (Numbers(f"forward / gradient: `{first}`", with_gradients(first), COPY),
            *(Numbers(f"`{name}`", with_gradients(name), COPY) for name in names))


def products(dtype):
    """Returns the rates of a product of matrices and its gradients, beside cuBLASLt alone."""
    cases = tuple(f"{name}/{dtype}" for name in ("matmul", "matmul_left_gradient", "matmul_right_gradient"))
    return (Numbers(f"{dtype}", cases, TFLOPS),
            Numbers("cuBLASLt alone", tuple(f"{case}/bare" for case in cases), TFLOPS))


def attention(dtype):
    return Numbers(dtype, tuple(f"{case}/{dtype}" for case in with_gradients("attention", "attention_scores")), MICROSECONDS)


def halves(dtype):
    """Returns the shares of a copy's rate of the operations that have forms for half precision."""
    def cases(*names):
        return tuple(f"{name}/{dtype}" for name in names)
    functions = ("relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "multiply")
    return (*(Numbers(f"{f'{dtype}, forward / gradient: ' if name == functions[0] else ''}`{name}`",
                      cases(*with_gradients(name)), COPY) for name in functions),
            Numbers("`softmax` of 128", each(f"softmax/{dtype}", ("width:128",)) +
                    each(f"softmax_gradient/{dtype}", ("width:128",)), COPY),
            Numbers("of 1,024", each(f"softmax/{dtype}", ("width:1024",)) +
                    each(f"softmax_gradient/{dtype}", ("width:1024",)), COPY),
            Numbers("forward `add` / `concat` / `mix_experts`:", cases("add", "concat", "mix_experts"), COPY))


def titled(title, numbers):
    """Returns numbers with a title in front of that of the first."""
    first, *others = numbers
    return (Numbers(f"{title} {first.title}", first.cases, first.kind), *others)


# The rows of the table, by the text with which they begin.
ROWS = {
    "`cast_ids`": Row((Numbers("to int32 / int64:", ("cast_ids/int64_to_int32", "cast_ids/int32_to_int64"), COPY),)),
    "`joined_bags`": Row((Numbers("26 columns by offsets, hotness 16, batch 2,048 / 8,192:", each("joined_bags", BATCHES),
                                  MICROSECONDS),)),
    "`embedding_tables_gradient`": Row((Numbers("of maxima, hotness 4:", each("gradient_of_maxima", BATCHES),
                                                MICROSECONDS),), adds=True),
    "`embedding_tables_weight_gradient`": Row((
        Numbers("26 tables, hotness 1, batch 2,048 / 8,192:", each("tables_weight_gradient", BATCHES), MICROSECONDS),
        Numbers("the latter", ("tables_weight_gradient/batch:8192",), COPY))),
    "`repeat_rows`": Row((Numbers("width 64, even / power law:", each("repeat_rows", LENGTHS), COPY),)),
    "`segment_ids`": Row((Numbers("to 4 Mi rows, even / power law:", each("segment_ids", LENGTHS), MICROSECONDS),)),
    "`matmul`, `attention`": Row((
        *titled("warm, `matmul` of 8,192 × 3,456 × 1,024 / its gradients:", products("float32") + products("bfloat16")),
        *titled("`attention` of 1,024 × 128 × 64 / its gradient / `attention_scores` / their gradient:",
                map(attention, ("float32", "bfloat16"))))),
    "`dense`, `_gradient`": Row((
        *titled("warm, the same sizes, forward / all gradients:", tuple(
            Numbers(f"{dtype} {name}", tuple(f"{case}/{dtype}{suffix}" for case in with_gradients("dense")), TFLOPS)
            for dtype in ("bfloat16", "float16") for name, suffix in (("relu", ""), ("gelu_tanh", "/gelu_tanh")))),),
        adds=True),
    "`relu`, `gelu`": Row(halves("bfloat16") + halves("float16")),
    "`embedding_lookup_beside`": Row((
        Numbers("26 tables, hotness 1, behind as many columns as a table has, batch 2,048 / 8,192:",
                each("lookup_beside", BATCHES), MICROSECONDS),
        Numbers("the lookup alone", each("tables_lookup", BATCHES), MICROSECONDS))),
    "`dense_fp8`": Row((Numbers("warm, bfloat16, 8,192 × 3,456 × 1,024 with relu:", ("dense_fp8/bfloat16",), TFLOPS),)),
    "`dense`, `mix_experts`": Row((
        Numbers("of 8,192 × 3,456 × 1,024 with relu", ("dense/float32", "dense_gradient/float32"), TFLOPS),
        Numbers("cold, 3 gates of 8 experts of 65,536 × 128, forward / gradient:", with_gradients("mix_experts"), COPY)),
        adds=True),
    "`add`, `multiply`": Row((
        *copies("add", "subtract", "multiply", "divide", "relu", "exp", "log", "sqrt", "sigmoid", "concat", "split",
                "transpose"),
        Numbers("gradients of `multiply` / `divide` / `relu` / `exp`:",
                ("multiply_gradient", "divide_gradient", "relu_gradient", "exp_gradient"), COPY),
        Numbers("with a row of 64, `add` / `multiply` gradient:", ("add_row", "multiply_row_gradient"), COPY))),
    "`fill_uniform`": Row(tuple(
        Numbers(f"{dtype}, uniform / normal / truncated:",
                each("fill_uniform", (dtype,)) + each("fill_normal", (dtype,)) + each("fill_truncated_normal", (dtype,)),
                COPY) for dtype in ("float32", "bfloat16"))),
    "`random_uniform`, `random_normal`": Row((
        Numbers("float32 uniform / normal, int64 / int32:",
                ("random_uniform/float32", "random_normal/float32", "random_integers/int64", "random_integers/int32"),
                COPY),)),
    "`factorization_machine`": Row((
        Numbers("of 65,536 × 26 × 64, forward / gradient: float32",
                each("factorization_machine", ("float32",)) + each("factorization_machine_gradient", ("float32",)), COPY),
        Numbers("bfloat16",
                each("factorization_machine", ("bfloat16",)) + each("factorization_machine_gradient", ("bfloat16",)),
                COPY))),
    "`tanh`, `gelu`": Row((*copies("add_scalar"), *beside_gradients("tanh", "gelu", "gelu_tanh", "silu", "clamp"))),
    "`prelu`, `dice`": Row(beside_gradients("prelu", "dice", "batch_norm", "l2_normalize")),
    "`sum`, `mean`": Row((
        *(Numbers(f"of {what}, `sum` / `mean` / `max` / `min`:",
                  tuple(f"{name}/{what}" for name in ("sum", "mean", "max", "min")), COPY) for what in ("rows", "columns")),
        Numbers("`softmax`, width 16 / 128 / 1,024 / 4,096:", each("softmax", WIDTHS), COPY),
        Numbers("its gradient", each("softmax_gradient", WIDTHS), COPY))),
    "`layer_norm`": Row((
        Numbers("gradients", each("layer_norm_gradient/float32", WIDTHS), COPY),
        Numbers("bfloat16", each("layer_norm_gradient/bfloat16", WIDTHS), COPY)), adds=True),
    "losses": Row((
        Numbers("`bce_with_logits` float32 / bfloat16:", each("bce_with_logits", ("float32", "bfloat16")), COPY),
        Numbers("`softmax_cross_entropy` of 1,024 classes:", each("softmax_cross_entropy", ("float32", "bfloat16")), COPY),
        *copies("mean_bce_with_logits", "mse_loss", "hinge_loss", "bpr_loss", "margin_ranking_loss"))),
}


def row_of(line):
    """Returns the text that names the row of a line of the page, or None if the line is none of ROWS."""
    return next((start for start in ROWS if line.startswith(f"| {start}")), None)


def rewritten(page, rows):
    """Returns the page with the numbers in the table whose last column is `measured`."""
    lines, missing, is_measured = [], set(ROWS), False
    for line in page.split("\n"):
        is_measured = line.startswith("|") and (is_measured or line.endswith("| measured |"))
        start = row_of(line) if is_measured else None
        if start is not None:
            missing.discard(start)
            front, _, cell = line.removesuffix(" |").rpartition(" | ")
            line = f"{front} | {ROWS[start].cell(cell, rows)} |"
        lines.append(line)
    if missing:
        raise ValueError(f"the page has no rows that begin with {', '.join(sorted(missing))}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("page", type=Path)
    arguments = parser.parse_args()
    if not arguments.results.is_file():
        parser.error(f"{arguments.results}: no such file")
    _, rows = read_suite(arguments.results.parent, arguments.results.name.removesuffix(".gz").removesuffix(".json"))
    arguments.page.write_text(rewritten(arguments.page.read_text(), rows))


if __name__ == "__main__":
    main()
