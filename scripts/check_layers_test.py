#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants each violation in a small tree, and checks that check_layers.py reports it and nothing else."""
import tempfile
import unittest
from pathlib import Path

import check_layers

HEAD = check_layers.LICENCE + "\n"
HEADER = HEAD + "#pragma once\n"
SOUND = {
    "include/msstream/base/version.hpp": HEADER,
    "include/msstream/base/detail/same_library.hpp": HEADER + "#include <msstream/base/version.hpp>\n",
    "include/msstream/base/error.hpp": HEADER + "#include <msstream/base/detail/same_library.hpp>\n#include <string>\n",
    "include/msstream/base/shape.hpp": HEADER + "#include <msstream/base/error.hpp>\n",
    "include/msstream/runtime/cuda.hpp": HEADER + "#include <msstream/base/shape.hpp>\n#include <cuda_runtime_api.h>\n",
    "include/msstream/ops/dense.hpp": HEADER + "#include <msstream/runtime/cuda.hpp>\n",
    "include/msstream/msstream.hpp": HEADER + "#include <msstream/ops/dense.hpp>\n",
    "src/ops/dense.cpp": HEAD + '#include <msstream/ops/dense.hpp>\n#include "dense_detail.hpp"\n',
    "src/ops/dense_detail.hpp": HEADER,
    "src/ops/dense_cuda.cpp": HEAD + "#include <cublasLt.h>\n",
    "include/msstream/ops/choices.hpp": HEADER + "#include <msstream/base/error.hpp>\n",
    "kernels/dense/dense.hpp":
        HEADER + "#include <msstream/ops/choices.hpp>\n#include <msstream/runtime/cuda.hpp>\n",
    "kernels/common/launch.cuh": HEADER + "#include <cub/cub.cuh>\n",
    "kernels/dense/dense.cuh": HEADER + '#include "common/launch.cuh"\n#include "dense/dense.hpp"\n',
    "kernels/dense/dense.cu": HEAD + '#include "dense/dense.cuh"\n',
    "tests/base/gate.hpp": HEADER,
    "tests/ops/dense_test.cpp": HEAD + '#include "base/gate.hpp"\n\n#include <msstream/ops/dense.hpp>\n',
    "tests/trust/program.hpp": HEADER + "#include <msstream/msstream.hpp>\n",
    "apps/cli/options.hpp": HEADER + "#include <msstream/base/error.hpp>\n#include <CLI/CLI.hpp>\n",
    "apps/datasets/table.hpp": HEADER,
    "apps/training/step_run.hpp": HEADER + '#include "cli/options.hpp"\n#include "datasets/table.hpp"\n#include <msstream/msstream.hpp>\n',
    "apps/load/load_plan.hpp": HEADER,
    "apps/load/load_plan.cpp": HEAD + '#include "load/load_plan.hpp"\n#include "datasets/table.hpp"\n',
    **{page: "".join(check_layers.marked(name) + "\n" for name in names) for page, names in check_layers.PAGES.items()},
}


def check(changes):
    with tempfile.TemporaryDirectory() as folder:
        for path, text in {**SOUND, **changes}.items():
            file = Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return check_layers.violations(folder)


class LayersTest(unittest.TestCase):
    def assert_reports(self, changes, *expected, unguarded=False):
        """Headers that do not include SAME_LIBRARY are left out unless `unguarded` asks for them: most plants have none."""
        found = [problem for problem in check(changes) if unguarded or " reaches no " not in problem]
        self.assertEqual(len(found), len(expected), found)
        for problem, part in zip(found, expected):
            self.assertIn(part, problem)

    def test_a_sound_tree_has_no_violations(self):
        self.assert_reports({}, unguarded=True)

    def test_tests_of_a_room_share_no_names(self):
        same = "constexpr std::size_t kRows = 3;\ntemplate <class T>\nstruct Inputs {\n  static constexpr int kOwn = 1;\n};\n"
        self.assert_reports({"tests/ops/a_test.cpp": HEAD + same, "tests/ops/b_test.cpp": HEAD + same,
                             "tests/step/a_test.cpp": HEAD + same},
                            "tests/ops/b_test.cpp:2: tests/ops/a_test.cpp has a kRows too", "b_test.cpp:4: tests/ops/a_test.cpp has a Inputs too")
        self.assert_reports({"tests/ops/ids/a_test.cpp": HEAD + "struct Inputs {\n", "tests/ops/dense/b_test.cpp": HEAD + "struct Inputs {\n"},
                            "tests/ops/ids/a_test.cpp:2: tests/ops/dense/b_test.cpp has a Inputs too")
        self.assert_reports({"tests/ops/a_test.cpp": HEAD + "  constexpr int kRows = 1;\nstruct Inputs;\n",
                             "tests/ops/b_test.cpp": HEAD + same})

    def test_names_of_tests_are_snake_case(self):
        for macro in ("TEST", "TEST_F", "TEST_P", "TYPED_TEST", "TYPED_TEST_P"):
            for name in ("WaitsForBoth", "waits_forBoth", "Waits_for_both", "waits__for_both", "DISABLED_waits"):
                for file in ("a_test.cpp", "a_test.cu", "contract.hpp"):
                    head = HEADER if file.endswith(".hpp") else HEAD
                    line = head.count("\n") + 2
                    with self.subTest(macro=macro, name=name, file=file):
                        self.assert_reports({f"tests/ops/{file}": head + f"{macro}(Dense,\n  {name}) {{}}\n"},
                                            f"tests/ops/{file}:{line}: the test {name} is not in snake_case")
        self.assert_reports({"tests/ops/a_test.cpp": HEAD + "TEST(Dense, a_batch_of_2_waits) {}\nTEST(Dense, adds) {}\n"})

    def test_a_room_may_not_include_a_higher_one(self):
        self.assert_reports({"include/msstream/stream/event.hpp": HEADER + "#include <msstream/ops/dense.hpp>\n"},
                            "event.hpp:3: stream/ (step 3) may not include ops/ (step 6)")

    def test_rooms_on_one_step_may_not_include_each_other(self):
        self.assert_reports({"include/msstream/comm/communicator.hpp": HEADER + "#include <msstream/ops/dense.hpp>\n"},
                            "comm/ (step 6) may not include ops/ (step 6)")

    def test_bodies_obey_the_staircase(self):
        self.assert_reports({"include/msstream/step/tape.hpp": HEADER,
                             "src/ops/dense.cpp": HEAD + "#include <msstream/step/tape.hpp>\n"},
                            "src/ops/dense.cpp:2: ops/ (step 6) may not include step/ (step 7)")
        self.assert_reports({"src/base/error.cpp": HEAD + '#include "dense/dense.cuh"\n'},
                            "src/base/error.cpp:2: base/ (step 0) may not include kernels/ (step 3)")
        self.assert_reports({"src/error.cpp": HEAD}, "src/error.cpp:1: 'None' is not a room")

    def test_of_ops_kernels_include_only_words_of_users(self):
        include = "#include <msstream/ops/dense.hpp>\n"
        self.assert_reports({"kernels/dense/dense.cu": HEAD + include},
                            "kernels/dense/dense.cu:2: kernels/ (step 3) may not include ops/ (step 6)")
        self.assert_reports({"kernels/dense/unary.hpp": HEADER + include},
                            "unary.hpp:3: kernels/ (step 3) may not include ops/ (step 6)")
        self.assert_reports({"kernels/dense/unary.cu": HEAD + "#include <msstream/ops/choices.hpp>\n"})

    def test_a_family_of_kernels_may_not_include_one_on_its_step_or_above(self):
        include = '#include "dense/dense.cuh"\n'
        self.assert_reports({"kernels/common/map.cuh": HEADER + include},
                            "map.cuh:3: common/ (step 0 of kernels/) may not include dense/ (step 2)")
        self.assert_reports({"kernels/segment/sums.cu": HEAD + include},
                            "sums.cu:2: segment/ (step 2 of kernels/) may not include dense/ (step 2)")
        self.assert_reports({"kernels/embedding_gradient/sums.cu": HEAD + include})

    def test_kernels_are_in_families(self):
        self.assert_reports({"kernels/dense.cu": HEAD}, "kernels/dense.cu:1: 'None' is not a family")
        self.assert_reports({"kernels/attic/dense.cu": HEAD}, "kernels/attic/dense.cu:1: 'attic' is not a family")

    def test_a_folder_has_few_files(self):
        for folder in ("kernels/ids", "src/memory", "src/memory/blocks", "tests/memory/blocks", "tests/trust",
                       "include/msstream/memory"):
            with self.subTest(folder):
                names = [f"{folder}/f{k}.hpp" for k in range(41)]
                few = {name: HEADER for name in names[1 if folder == "tests/trust" else 0:40]}
                self.assert_reports(few)
                self.assert_reports({**few, names[40]: HEADER}, f"{folder}: 41 files; at most 40")

    def test_sub_folders_belong_to_their_room(self):
        self.assert_reports({"include/msstream/step/tape.hpp": HEADER,
                             "src/ops/dense/dense.cpp": HEAD + "#include <msstream/step/tape.hpp>\n"},
                            "src/ops/dense/dense.cpp:2: ops/ (step 6) may not include step/ (step 7)")
        self.assert_reports({"src/ops/dense/args.hpp": HEADER,
                             "src/step/tape.cpp": HEAD + '#include "ops/dense/args.hpp"\n',
                             "tests/step/tape/tape_test.cpp": HEAD + '#include "ops/dense/args.hpp"\n'})

    def test_sub_folders_include_each_other_one_way(self):
        self.assert_reports({"src/memory/blocks/block.hpp": HEADER,
                             "src/memory/pools/pool.hpp": HEADER + '#include "memory/blocks/block.hpp"\n',
                             "src/memory/pools/options.hpp": HEADER})
        self.assert_reports({"src/memory/blocks/block.hpp": HEADER + '#include "memory/pools/options.hpp"\n',
                             "src/memory/pools/pool.hpp": HEADER + '#include "memory/blocks/block.hpp"\n',
                             "src/memory/pools/options.hpp": HEADER},
                            "includes in a circle: src/memory/blocks -> src/memory/pools -> src/memory/blocks")

    def test_other_folders_include_only_the_headers_in_front(self):
        files = {"src/memory/supply/backing_memory.hpp": HEADER + '#include "memory/supply/page_range.hpp"\n',
                 "src/memory/supply/page_range.hpp": HEADER}
        self.assert_reports({**files, "src/memory/pools/pool.hpp": HEADER + '#include "memory/supply/backing_memory.hpp"\n',
                             "tests/memory/supply/range_test.cpp": HEAD + '#include "memory/supply/page_range.hpp"\n'})
        for path in ("src/memory/pools/pool.hpp", "src/tensor/tensor.hpp"):
            self.assert_reports({**files, path: HEADER + '#include "memory/supply/page_range.hpp"\n'},
                                f"{path}:3: of src/memory/supply/, other folders include only backing_memory.hpp")

    def test_tests_include_what_their_room_may(self):
        include = "#include <msstream/ops/dense.hpp>\n"
        self.assert_reports({"tests/stream/event_test.cpp": HEAD + include},
                            "event_test.cpp:2: stream/ (step 3) may not include ops/ (step 6)")
        self.assert_reports({"tests/tensor/issue_test.cpp": HEAD + include})
        self.assert_reports({"tests/stream/event_test.cpp": HEAD + "#include <msstream/msstream.hpp>\n"})
        self.assert_reports({"tests/base/error_test.cpp": HEAD + '#include "../../kernels/dense/dense.cuh"\n'},
                            "error_test.cpp:2: base/ (step 0) may not include kernels/ (step 3)")

    def test_tests_of_the_whole_library_include_everything_and_are_included_by_no_room(self):
        self.assert_reports({"tests/trust/a_test.cpp": HEAD + '#include <msstream/serve/pool.hpp>\n#include "elsewhere.hpp"\n'})
        self.assert_reports({"tests/ops/dense_test.cpp": HEAD + '#include "trust/program.hpp"\n'},
                            "dense_test.cpp:2: ops/ may not include tests/trust/program.hpp")

    def test_pages_have_the_tables(self):
        page = SOUND["docs/design.md"]
        self.assert_reports({"docs/design.md": page.replace("| 8 |", "| 9 |")}, "docs/design.md: a table is not that of")
        unmarked = SOUND["CONTRIBUTING.md"].replace("<!-- families:", "<!--")
        self.assert_reports({"CONTRIBUTING.md": unmarked}, "CONTRIBUTING.md: there is no table 'families'")
        changed, missing = check_layers.with_tables("docs/design.md", "a\n" + page.replace("| 8 |", "| 9 |") + "b\n")
        self.assertEqual((changed, missing), ("a\n" + page + "b\n", []))

    def test_the_umbrella_is_for_users(self):
        self.assert_reports({"src/ops/dense.cpp": HEAD + "#include <msstream/msstream.hpp>\n"},
                            "only users include include/msstream/msstream.hpp")

    def test_includes_in_a_circle_are_reported_once(self):
        self.assert_reports({"include/msstream/base/error.hpp": HEADER + "#include <msstream/base/text.hpp>\n",
                             "include/msstream/base/text.hpp": HEADER + "#include <msstream/base/shape.hpp>\n"},
                            "includes in a circle: ")

    def test_cuda_is_named_in_few_places(self):
        for header in ("cuda_runtime.h", "cuda.h", "cub/cub.cuh", "cublasLt.h", "nvtx3/nvToolsExt.h", "nccl.h",
                       "thrust/sort.h", "cooperative_groups.h", "cuda/std/span.hpp"):
            with self.subTest(header):
                self.assert_reports({"src/ops/dense.cpp": HEAD + f"#include <{header}>\n"},
                                    f"names the CUDA header {header}")
        self.assert_reports({"src/ops/dense.cpp": HEAD + "#include <custom.hpp>\n#include <numeric>\n#include <nvme>\n"})

    def test_fmt_is_included_in_few_places(self):
        include = "#include <fmt/core.h>\n"
        for path in ("include/msstream/ops/dense.hpp", "include/msstream/base/detail/closure.hpp"):
            with self.subTest(path):
                self.assert_reports({path: HEADER + include}, f"{path}:3: a public header may not include fmt/core.h")
        for path in ("kernels/ids/bags.cuh", "kernels/dense/dense.cu", "tests/ops/dense_test.cu", "tests/trust/a_test.cu",
                     "examples/a/a.cu", "benchmarks/a.cu"):
            with self.subTest(path):
                self.assert_reports({path: HEADER + include}, f"{path}:3: a file for nvcc may not include fmt/core.h")
        self.assert_reports({**{path: HEADER + include for path in check_layers.FMT_HEADERS},
                             "include/msstream/ops/dense.hpp": HEADER + "#include <fmt.h>\n",
                             "src/ops/dense.cpp": HEAD + "#include <fmt/format.h>\n",
                             "kernels/dense/dense.hpp": HEADER + include,
                             "tests/ops/dense_test.cpp": HEAD + include})

    def test_every_file_has_a_licence_and_every_header_a_guard(self):
        self.assert_reports({"src/ops/dense.cpp": "int dense;\n"}, "src/ops/dense.cpp:1: the first line is not")
        self.assert_reports({"kernels/ids/bags.cuh": HEAD}, "kernels/ids/bags.cuh:1: no #pragma once")

    def test_an_include_must_exist(self):
        self.assert_reports({"src/ops/dense.cpp": HEAD + '#include <msstream/ops/sparse.hpp>\n#include "gone.hpp"\n'},
                            "there is no include/msstream/ops/sparse.hpp", "there is no gone.hpp")

    def test_a_new_room_needs_a_step(self):
        self.assert_reports({"include/msstream/attic/box.hpp": HEADER}, "'attic' is not a room")

    def test_the_libraries_of_programs_include_only_what_they_may(self):
        for library, other in (("cli", "datasets/table"), ("datasets", "cli/options"), ("training", "load/load_plan"),
                               ("load", "training/step_run"), ("cli", "training/step_run")):
            for opening, closing in ('""', "<>"):
                with self.subTest(library=library, other=other, opening=opening):
                    self.assert_reports({f"apps/{library}/a.cpp": HEAD + f"#include {opening}{other}.hpp{closing}\n"},
                                        f"a.cpp:2: apps/{library}/ may not include apps/{other.partition('/')[0]}/")

    def test_the_libraries_of_programs_name_no_private_file(self):
        for name in ("options.hpp", "dense.cuh", "dense_detail.hpp", "cli/gone.hpp"):
            with self.subTest(name):
                self.assert_reports({"apps/cli/a.cpp": HEAD + f'#include "{name}"\n'}, f"a.cpp:2: there is no apps/{name}")
        self.assert_reports({"apps/cli/a.cpp": HEAD + "#include <msstream/base/gone.hpp>\n#include <cuda_runtime.h>\n"},
                            "there is no include/msstream/base/gone.hpp", "names the CUDA header cuda_runtime.h")
        self.assert_reports({"src/ops/dense.cpp": HEAD + '#include "cli/options.hpp"\n'}, "there is no cli/options.hpp")

    def test_the_libraries_of_programs_keep_the_rules_of_files(self):
        self.assert_reports({"apps/cli/a.hpp": "#pragma once\n", "apps/datasets/table.hpp": HEAD},
                            "apps/cli/a.hpp:1: the first line is not", "apps/cli/a.hpp:1: no #pragma once",
                            "apps/datasets/table.hpp:1: no #pragma once")
        self.assert_reports({"apps/attic/box.hpp": HEADER}, "'attic' is not a library of apps/")
        self.assert_reports({"apps/cli/options.hpp": HEADER + '#include "cli/b.hpp"\n',
                             "apps/cli/b.hpp": HEADER + '#include "cli/options.hpp"\n'}, "includes in a circle: apps/cli/")

    def test_every_public_header_lets_the_linker_compare_versions(self):
        self.assert_reports({"include/msstream/ops/alone.hpp": HEADER + "#include <string>\n",
                             "include/msstream/ops/detail/alone.hpp": HEADER,
                             "include/msstream/ops/beside.hpp": HEADER + "#include <msstream/ops/alone.hpp>\n"},
                            "ops/alone.hpp:1: reaches no include/msstream/base/detail/same_library.hpp", "ops/beside.hpp:1: ",
                            unguarded=True)

    def test_an_empty_tree_is_not_a_success(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(len(check_layers.violations(folder)), 1)


if __name__ == "__main__":
    unittest.main()
