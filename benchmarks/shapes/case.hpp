// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The operations and shapes that the program shapes_sweep measures.
namespace benchmarks::shapes {

enum class Operation : std::uint8_t {
  segment_sum,
  segment_mean,
  segment_max,
  segment_sum_sorted,
  segment_sum_unsorted,
  segment_softmax,
  segment_sum_gradient,
  segment_mean_gradient,
  segment_max_gradient,
  segment_softmax_gradient,
  row_gradients,
  jagged_row_gradients,
  weight_gradient,
  tables_gradient,
  mixed_tables_gradient,
  update_sgd,
  update_rowwise_adagrad,
  update_adam,
  tables_update,
  unique,
  unique_below,
  unique_hashed,
  unique_by_occurrence,
  deduplicate
};
[[nodiscard]] std::string_view name_of(Operation operation);

/// The kinds of operations between which the option `--only` chooses.
enum class Family : std::uint8_t { segment, gradient, update, unique };
[[nodiscard]] Family family_of(Operation operation);

/// How rows are divided among segments, or places among ids.
enum class Skew : std::uint8_t {
  even,       ///< segments of one length, or ids drawn uniformly
  power_law,  ///< the r-th most frequent one has a share proportional to r^-1.05
  half        ///< one has half of all, the others share the rest evenly
};
[[nodiscard]] std::string_view name_of(Skew skew);

inline constexpr std::int64_t kTableRows = 2'000'000;
/// The number of tables of an operation on many tables, among which the bags and the rows are
/// divided.
inline constexpr std::int64_t kTables = 8;

/// An operation at one shape.
struct Case {
  Operation operation;
  msstream::DType dtype;  ///< of rows and gradients: float32, float16 or bfloat16
  int id_bits;            ///< 32 or 64
  Skew skew;
  std::int64_t width;
  std::int64_t length;    ///< rows of a segment, or ids of a bag: the mean if they vary
  std::int64_t segments;  ///< segments, or bags of all tables

  /// Returns the number of rows in all segments, or of ids in all bags.
  [[nodiscard]] std::int64_t places() const { return segments * length; }
};

/// Returns the width of each table of an operation on many tables: all have the width of the case,
/// or every second one has a quarter of it.
[[nodiscard]] std::vector<std::int64_t> widths_of_tables(Case const& what);

/// The rows that an operation touches, each counted once, or the distinct ids that it finds.
struct Touched {
  double rows = 0;
  double columns = 0;  ///< the widths of these rows together
};
/// Returns the bytes that an operation must move, counted as docs/benchmarks.md says.
[[nodiscard]] double bytes_of(Case const& what, Touched const& touched);
/// Returns the bytes that an operation moves if as many rows as possible are distinct.
[[nodiscard]] double most_bytes_of(Case const& what);

/// Returns the cases of the sweep, those of one family only if it is given. A quick sweep has fewer
/// cases, which cover all operations, types and skews. Leaves out cases that move more than 3 GB.
[[nodiscard]] std::vector<Case> list_cases(bool quick, std::optional<Family> only);

/// Returns the first row of each segment, and the number of all rows: [segments + 1], ascending.
[[nodiscard]] std::vector<std::int64_t> segment_starts(Skew skew,
                                                       std::int64_t segments,
                                                       std::int64_t rows);

}  // namespace benchmarks::shapes
