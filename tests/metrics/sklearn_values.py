#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What scikit-learn gives for the examples of sklearn_values_test.cpp: sklearn_values.py [--check]

Writes sklearn_values.hpp beside the script. With --check, instead compares the numbers in that file with those of the
scikit-learn that is installed, to 1e-12. Exits with 77 where there is none.
"""
import argparse
import re
import sys
from pathlib import Path

try:
    import numpy as np
    import sklearn
    from sklearn.metrics import accuracy_score, log_loss, ndcg_score, roc_auc_score
except ImportError as missing:
    print(f"sklearn_values: {missing}", file=sys.stderr)
    sys.exit(77)

FILE = Path(__file__).with_suffix(".hpp")
# For each case the number of examples, of different scores (a power of two), and whether examples have weights.
CASES = [(count, levels, weighted) for count in (10, 33, 500, 4097) for levels in (4, 64, 65536) for weighted in (0, 1)]
LISTS, LENGTH = 50, 12


class Numbers:
    """The linear congruential generator of the test."""

    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % bound


def examples(case):
    count, levels, weighted = case
    numbers = Numbers(count * levels + weighted)
    rows = []
    for i in range(count):
        level = numbers.below(levels)
        label = int(numbers.below(1000) < 50 + level * 800 // levels) if i > 1 else i
        rows.append((level, label, numbers.below(17) / 4 if weighted and i > 1 else 1))
    level, label, weight = (np.array(column) for column in zip(*rows))
    logits = (level * (8 / levels) - 5).astype(np.float32)
    probabilities = np.where(level == levels - 1, 1, level / levels).astype(np.float32)
    return logits, probabilities, label, weight


def values_of(case):
    logits, probabilities, labels, weights = examples(case)
    of_logits = 1 / (1 + np.exp(-logits.astype(np.float64)))
    return (roc_auc_score(labels, logits, sample_weight=weights),
            log_loss(labels, of_logits, sample_weight=weights),
            log_loss(labels, probabilities, sample_weight=weights),
            accuracy_score(labels, probabilities > 0.5, sample_weight=weights))


def ndcg_of(places):
    numbers = Numbers(places)
    grades, scores = [], []
    for _ in range(LISTS * LENGTH):
        grades.append(max(0, numbers.below(8) - 3))
        scores.append(numbers.below(16))
    grades = np.array(grades, dtype=float).reshape(LISTS, LENGTH)
    scores = np.array(scores, dtype=float).reshape(LISTS, LENGTH)
    some = grades.max(axis=1) > 0
    return ndcg_score(grades[some], scores[some], k=places)


def text():
    lines = ["// SPDX-License-Identifier: Apache-2.0",
             "#pragma once",
             "",
             "#include <cstdint>",
             "",
             "namespace msstream::metrics::testing {",
             "",
             f"// Written by sklearn_values.py with scikit-learn {sklearn.__version__}.",
             "",
             "// clang-format off",
             "struct SklearnCase {",
             "  std::int64_t count;",
             "  std::int64_t levels;",
             "  bool weighted;",
             "  double auc;",
             "  double log_loss_of_logits;",
             "  double log_loss_of_probabilities;",
             "  double accuracy;",
             "};",
             "inline constexpr SklearnCase kSklearnCases[] = {"]
    for case in CASES:
        numbers = ", ".join(f"{value:.17g}" for value in values_of(case))
        lines.append(f"    {{{case[0]}, {case[1]}, {'true' if case[2] else 'false'}, {numbers}}},")
    lines += ["};", "", "struct SklearnNdcg {", "  std::int64_t places;", "  double ndcg;", "};",
              f"inline constexpr std::int64_t kSklearnLists = {LISTS};",
              f"inline constexpr std::int64_t kSklearnListLength = {LENGTH};",
              "inline constexpr SklearnNdcg kSklearnNdcg[] = {"]
    lines += [f"    {{{places}, {ndcg_of(places):.17g}}}," for places in (1, 5, 12)]
    return "\n".join([*lines, "};", "// clang-format on", "", "}  // namespace msstream::metrics::testing", ""])


def numbers_of(header):
    return [float(number) for number in re.findall(r"[\d.]+(?:e[+-]?\d+)?", header[header.index("kSklearnCases[]"):])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        FILE.write_text(text(), encoding="utf-8")
        return 0
    recorded, found = numbers_of(FILE.read_text(encoding="utf-8")), numbers_of(text())
    if len(recorded) != len(found) or not np.allclose(recorded, found, rtol=0, atol=1e-12):
        print(f"{FILE}: scikit-learn {sklearn.__version__} gives other numbers", file=sys.stderr)
        return 1
    print(f"sklearn_values: the {len(found)} numbers are those of scikit-learn {sklearn.__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
