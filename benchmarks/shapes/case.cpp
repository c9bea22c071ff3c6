// SPDX-License-Identifier: Apache-2.0
#include "case.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <stdexcept>

namespace benchmarks::shapes {

namespace {

using msstream::DType;

constexpr double kFloat = sizeof(float);
constexpr double kOffset = sizeof(std::int64_t);

struct Named {
  std::string_view name;
  Family family;
};
/// The names and families of the operations, in the order of the enumeration.
constexpr std::array kOperations{Named{"segment_sum", Family::segment},
                                 Named{"segment_mean", Family::segment},
                                 Named{"segment_max", Family::segment},
                                 Named{"segment_sum_sorted", Family::segment},
                                 Named{"segment_sum_unsorted", Family::segment},
                                 Named{"segment_softmax", Family::segment},
                                 Named{"segment_sum_gradient", Family::segment},
                                 Named{"segment_mean_gradient", Family::segment},
                                 Named{"segment_max_gradient", Family::segment},
                                 Named{"segment_softmax_gradient", Family::segment},
                                 Named{"row_gradients", Family::gradient},
                                 Named{"jagged_row_gradients", Family::gradient},
                                 Named{"weight_gradient", Family::gradient},
                                 Named{"tables_gradient", Family::gradient},
                                 Named{"mixed_tables_gradient", Family::gradient},
                                 Named{"update_sgd", Family::update},
                                 Named{"update_rowwise_adagrad", Family::update},
                                 Named{"update_adam", Family::update},
                                 Named{"tables_update", Family::update},
                                 Named{"unique", Family::unique},
                                 Named{"unique_below", Family::unique},
                                 Named{"unique_hashed", Family::unique},
                                 Named{"unique_by_occurrence", Family::unique},
                                 Named{"deduplicate", Family::unique}};
static_assert(kOperations.size() == static_cast<std::size_t>(Operation::deduplicate) + 1);

Named const& named(Operation operation) {
  return kOperations.at(static_cast<std::size_t>(operation));
}

/// Returns the bytes of an optimizer's state that a row of the table has.
double state_bytes(Case const& what) {
  switch (what.operation) {
    case Operation::update_sgd:
      return 0;
    case Operation::update_adam:
      return 2 * kFloat * static_cast<double>(what.width);
    default:
      return kFloat;  // row-wise Adagrad
  }
}

}  // namespace

std::string_view name_of(Operation operation) {
  return named(operation).name;
}

Family family_of(Operation operation) {
  return named(operation).family;
}

std::string_view name_of(Skew skew) {
  constexpr std::array<std::string_view, 3> kNames{"even", "power", "half"};
  return kNames.at(static_cast<std::size_t>(skew));
}

std::vector<std::int64_t> widths_of_tables(Case const& what) {
  bool const is_mixed = what.operation == Operation::mixed_tables_gradient;
  std::vector<std::int64_t> widths;
  for (std::int64_t table = 0; table < kTables; ++table) {
    bool const is_narrow = is_mixed && table % 2 != 0;
    widths.push_back(is_narrow ? std::max<std::int64_t>(what.width / 4, 1) : what.width);
  }
  return widths;
}

double bytes_of(Case const& what, Touched const& touched) {
  auto const places = static_cast<double>(what.places());
  auto const segments = static_cast<double>(what.segments);
  auto const width = static_cast<double>(what.width);
  double const element = what.dtype == DType::float32 ? 4 : 2;
  double const id = what.id_bits / 8.0;
  double const floats_of_row = kFloat * width;
  double const offsets = kOffset * (segments + 1);
  // The gradient of pooled rows, in which a table of many has its own columns.
  auto const pooled = [&] {
    auto const widths = widths_of_tables(what);
    auto const columns = std::accumulate(widths.begin(), widths.end(), std::int64_t{0});
    return segments / static_cast<double>(kTables) * static_cast<double>(columns) * element;
  };
  switch (what.operation) {
    case Operation::segment_sum:
    case Operation::segment_mean:
    case Operation::segment_max:
      return (places + segments) * floats_of_row + offsets;
    case Operation::segment_sum_sorted:
    case Operation::segment_sum_unsorted:
      return (places + segments) * floats_of_row + places * id;
    case Operation::segment_softmax:
      return 2 * places * floats_of_row + offsets;
    case Operation::segment_softmax_gradient:
      return 3 * places * floats_of_row + offsets;
    case Operation::segment_sum_gradient:
    case Operation::segment_mean_gradient:
      return (places + segments) * floats_of_row + offsets;
    case Operation::segment_max_gradient:
      return 2 * (places + segments) * floats_of_row + offsets;
    case Operation::row_gradients:
      return places * (element * width + 2 * id) + touched.columns * kFloat;
    case Operation::jagged_row_gradients:
      return places * (element * width + 2 * id) + 2 * id * (segments + 1) +
             touched.columns * kFloat;
    case Operation::weight_gradient:
      return places * (id + element * width + kFloat) + segments * floats_of_row;
    case Operation::tables_gradient:
    case Operation::mixed_tables_gradient:
      return places * id + pooled() + touched.columns * kFloat + touched.rows * kOffset;
    case Operation::update_sgd:
    case Operation::update_rowwise_adagrad:
    case Operation::update_adam:
      return places * id + segments * element * width +
             2 * touched.rows * (element * width + state_bytes(what));
    case Operation::tables_update:
      return places * id + pooled() + 2 * touched.rows * (element * width + state_bytes(what));
    case Operation::unique:
    case Operation::unique_below:
    case Operation::unique_hashed:
    case Operation::unique_by_occurrence:
      return places * (id + kOffset) + touched.rows * (id + kOffset);
    case Operation::deduplicate:
      return places * (id + 2 * sizeof(std::int32_t)) +
             touched.rows * (kOffset + sizeof(std::int32_t));
  }
  throw std::invalid_argument("bytes_of: an operation that is none of the enumeration");
}

double most_bytes_of(Case const& what) {
  auto const rows = static_cast<double>(std::min(what.places(), kTableRows));
  return bytes_of(what, {rows, rows * static_cast<double>(what.width)});
}

std::vector<std::int64_t> segment_starts(Skew skew, std::int64_t segments, std::int64_t rows) {
  std::vector<double> share(static_cast<std::size_t>(segments), 1.0);
  if (skew == Skew::power_law) {
    std::int64_t spread = 2'654'435'761;
    while (std::gcd(spread, segments) != 1) {
      spread += 2;
    }
    for (std::int64_t rank = 0; rank < segments; ++rank) {
      share[static_cast<std::size_t>(rank * spread % segments)] =
          std::pow(static_cast<double>(rank + 1), -1.05);
    }
  } else if (skew == Skew::half) {
    share[share.size() / 2] = std::max(static_cast<double>(segments - 1), 1.0);
  }
  double const all = std::accumulate(share.begin(), share.end(), 0.0);
  std::vector<std::int64_t> starts{0};
  double before = 0;
  for (double const part : share) {
    before += part;
    starts.push_back(
        std::min(rows, static_cast<std::int64_t>(static_cast<double>(rows) * before / all + 0.5)));
  }
  starts.back() = rows;
  return starts;
}

}  // namespace benchmarks::shapes
