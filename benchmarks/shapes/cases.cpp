// SPDX-License-Identifier: Apache-2.0
#include "case.hpp"

#include <msstream/base/dtype.hpp>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace benchmarks::shapes {

namespace {

using msstream::DType;

/// The values of each parameter, of which all combinations are measured.
struct Grid {
  std::vector<std::int64_t> widths;
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> segments;
};

struct Grids {
  Grid fine;    ///< for one case of types and skew in each family
  Grid coarse;  ///< for all others
};

Grids grids(bool quick) {
  if (quick) {
    return {{{1, 33, 128}, {1, 30}, {256, 16384}}, {{1, 128}, {30}, {256, 16384}}};
  }
  return {{{1, 4, 16, 32, 33, 64, 96, 128, 256, 384, 512},
           {1, 2, 5, 10, 30, 100, 200},
           {256, 4096, 16384, 65536}},
          {{1, 16, 33, 128, 512}, {1, 5, 30, 200}, {256, 4096, 65536}}};
}

/// A list of cases that grows by grids.
class Cases {
 public:
  Cases(Grids grids, std::optional<Family> only) : grids_(std::move(grids)), only_(only) {}

  void add_fine(Operation operation, DType dtype, int id_bits, Skew skew) {
    add(grids_.fine, {operation, dtype, id_bits, skew, 0, 0, 0});
  }
  void add(Operation operation, DType dtype, int id_bits, Skew skew) {
    add(grids_.coarse, {operation, dtype, id_bits, skew, 0, 0, 0});
  }
  [[nodiscard]] std::vector<Case> take() { return std::move(cases_); }

 private:
  void add(Grid const& grid, Case what) {
    constexpr double kMostBytes = 3e9;
    auto const family = family_of(what.operation);
    if (only_ && *only_ != family) {
      return;
    }
    // Ids have no columns.
    auto const widths = family == Family::unique ? std::vector<std::int64_t>{1} : grid.widths;
    for (auto const width : widths) {
      for (auto const length : grid.lengths) {
        for (auto const segments : grid.segments) {
          what.width = width;
          what.length = length;
          what.segments = segments;
          if (most_bytes_of(what) <= kMostBytes) {
            cases_.push_back(what);
          }
        }
      }
    }
  }

  Grids grids_;
  std::optional<Family> only_;
  std::vector<Case> cases_;
};

void add_segments(Cases& cases) {
  using enum Operation;
  cases.add_fine(segment_sum, DType::float32, 64, Skew::even);
  cases.add(segment_sum, DType::float32, 64, Skew::power_law);
  cases.add(segment_sum, DType::float32, 64, Skew::half);
  cases.add(segment_mean, DType::float32, 64, Skew::even);
  cases.add(segment_max, DType::float32, 64, Skew::even);
  cases.add(segment_max, DType::float32, 64, Skew::half);
  cases.add(segment_sum_sorted, DType::float32, 64, Skew::even);
  cases.add(segment_sum_unsorted, DType::float32, 32, Skew::even);
  cases.add(segment_sum_unsorted, DType::float32, 64, Skew::even);
  cases.add(segment_sum_unsorted, DType::float32, 64, Skew::half);
  for (auto const skew : {Skew::even, Skew::half}) {
    cases.add(segment_softmax, DType::float32, 64, skew);
    cases.add(segment_softmax_gradient, DType::float32, 64, skew);
    cases.add(segment_sum_gradient, DType::float32, 64, skew);
    cases.add(segment_max_gradient, DType::float32, 64, skew);
  }
  cases.add(segment_mean_gradient, DType::float32, 64, Skew::even);
}

void add_gradients(Cases& cases) {
  using enum Operation;
  cases.add_fine(row_gradients, DType::float32, 64, Skew::even);
  cases.add(row_gradients, DType::float32, 64, Skew::power_law);
  cases.add(row_gradients, DType::float32, 64, Skew::half);
  cases.add(row_gradients, DType::float32, 32, Skew::even);
  cases.add(row_gradients, DType::bfloat16, 64, Skew::even);
  cases.add(row_gradients, DType::float16, 64, Skew::even);
  cases.add(jagged_row_gradients, DType::float32, 64, Skew::even);
  cases.add(jagged_row_gradients, DType::float32, 64, Skew::half);
  cases.add(weight_gradient, DType::float32, 64, Skew::even);
  cases.add(weight_gradient, DType::bfloat16, 64, Skew::even);
  cases.add(tables_gradient, DType::float32, 64, Skew::even);
  cases.add(tables_gradient, DType::float32, 64, Skew::half);
  cases.add(tables_gradient, DType::bfloat16, 32, Skew::even);
  cases.add(mixed_tables_gradient, DType::float32, 64, Skew::even);
}

void add_updates(Cases& cases) {
  using enum Operation;
  cases.add(update_sgd, DType::float32, 64, Skew::even);
  cases.add_fine(update_rowwise_adagrad, DType::float32, 64, Skew::even);
  cases.add(update_rowwise_adagrad, DType::float32, 64, Skew::half);
  cases.add(update_rowwise_adagrad, DType::bfloat16, 64, Skew::even);
  cases.add(update_rowwise_adagrad, DType::float16, 32, Skew::even);
  cases.add(update_adam, DType::float32, 64, Skew::even);
  cases.add(tables_update, DType::float32, 64, Skew::even);
  cases.add(tables_update, DType::float32, 64, Skew::half);
  cases.add(tables_update, DType::bfloat16, 64, Skew::even);
}

void add_uniques(Cases& cases) {
  using enum Operation;
  for (int const id_bits : {32, 64}) {
    cases.add_fine(unique, DType::float32, id_bits, Skew::even);
    cases.add_fine(deduplicate, DType::float32, id_bits, Skew::even);
    for (auto const skew : {Skew::power_law, Skew::half}) {
      cases.add(unique, DType::float32, id_bits, skew);
      cases.add(deduplicate, DType::float32, id_bits, skew);
    }
    cases.add_fine(unique_below, DType::float32, id_bits, Skew::even);
    cases.add_fine(unique_hashed, DType::float32, id_bits, Skew::even);
    cases.add(unique_by_occurrence, DType::float32, id_bits, Skew::even);
  }
}

}  // namespace

std::vector<Case> list_cases(bool quick, std::optional<Family> only) {
  Cases cases(grids(quick), only);
  add_segments(cases);
  add_gradients(cases);
  add_updates(cases);
  add_uniques(cases);
  return cases.take();
}

}  // namespace benchmarks::shapes
