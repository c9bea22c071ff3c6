// SPDX-License-Identifier: Apache-2.0
#include "sweep_options.hpp"

#include "cli/outputs.hpp"

#include <iostream>

namespace benchmarks::shapes {

namespace {

constexpr char const* kDescription =
    "Times of operations on segments, rows and ids at many shapes, on a GPU.\n"
    "\n"
    "Rows of 1 to 512 columns, segments or bags of 1 to 200 rows, 256 to 65536 of them, even or\n"
    "skewed, float32, bfloat16 and float16, ids of 32 and 64 bits. The skew `power` gives the "
    "r-th\n"
    "largest segment, or the r-th most frequent id, a share proportional to r^-1.05; `half` gives\n"
    "one of them half of all rows. Each time is a median on a cold cache, as in the tables of\n"
    "docs/benchmarks.md, which also says which bytes count.\n"
    "\n"
    "How to read a line: `of copy` is the rate of these bytes, with that of a device copy as 1. "
    "Far\n"
    "below 1 the operation waits for something else than memory; with few bytes, for its "
    "launches.\n"
    "Above 1, rows come from the cache. `to CUB` above 1 means that we are faster. The baselines:\n"
    "  segment_sum, segment_max of width 1    cub::DeviceSegmentedReduce\n"
    "  unique, deduplicate                    cub::DeviceRadixSort and DeviceRunLengthEncode, "
    "which\n"
    "                                         find neither an inverse nor ranks\n"
    "\n"
    "At the end stand medians, the slowest shapes, and the outliers: shapes that are 1.3 times as\n"
    "slow as their neighbours, from which they differ in one parameter by one step. There a rule\n"
    "that chooses a launch has probably chosen badly.";

}  // namespace

SweepOptions parse_options(cli::Arguments const& arguments) {
  SweepOptions chosen;
  cli::Options options(
      kDescription,
      {{"shapes_sweep --quick", "some shapes of everything, in seconds"},
       {"shapes_sweep --only segment", "all shapes of segment reductions and their gradients"},
       {"shapes_sweep --csv shapes.csv", "all shapes, and a file to compare two builds with"}});
  options.add_choice("--only",
                     chosen.only,
                     {{"all", std::nullopt},
                      {"segment", Family::segment},
                      {"gradient", Family::gradient},
                      {"update", Family::update},
                      {"unique", Family::unique}},
                     "the operations: segment reductions and softmax with their gradients; "
                     "gradients of lookups; updates of tables fused with them; distinct ids");
  options.add_flag("--quick", chosen.quick, "few shapes, which cover all operations and skews");
  options.add("--limit-s",
              chosen.limit_s,
              "seconds after which the rest of the shapes is left out",
              {1.0, 1e6});
  options.add("--csv", chosen.csv, "also write all numbers there", "a path");
  options.know_variables({"MSSTREAM_BUILD_PRESET",
                          "MSSTREAM_MAX_GROWTH_BYTES",
                          "MSSTREAM_MEMORY_HISTORY",
                          "MSSTREAM_MEMORY_POOLS",
                          "MSSTREAM_MEMORY_SOFT_LIMIT_BYTES",
                          "MSSTREAM_REDUCE_WAITS"});
  options.parse(arguments, std::cerr);
  cli::check_outputs({{"--csv", chosen.csv}});
  return chosen;
}

}  // namespace benchmarks::shapes
