// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "case.hpp"
#include "cub_cache.hpp"
#include "device_bench.hpp"
#include "inputs.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <type_traits>
#include <vector>

namespace benchmarks::shapes {

/// The device on which operations are measured, and the memory of CUB's algorithms.
class Workplace {
 public:
  DeviceBench<ms::Cuda> bench{1};
  CubCache cub;

  [[nodiscard]] Device const& device() const { return bench.device(); }
  /// Returns the stream on which operations and baselines run.
  [[nodiscard]] CUstream_st* stream() const {
    return bench.device().current_group().compute().native();
  }
  /// Returns the numbers 0, 1, … [count], which are made once for the largest count.
  [[nodiscard]] Tensor<std::int32_t> numbers(std::int64_t count) {
    if (!numbers_ || numbers_->count() < count) {
      std::vector<std::int32_t> all(static_cast<std::size_t>(count));
      std::iota(all.begin(), all.end(), 0);
      numbers_ = ms::to_device<std::int32_t, ms::Cuda>(device(), all, {count});
    }
    return numbers_->rows(0, count);
  }

 private:
  std::optional<Tensor<std::int32_t>> numbers_;
};

/// An operation with its inputs on the device, ready to be repeated.
struct Prepared {
  std::function<void()> ours;
  std::function<void()> cub;  ///< empty if CUB has no such algorithm
  double bytes;               ///< that must move
};

[[nodiscard]] Prepared prepare_segments(Workplace& workplace, Case const& what);
[[nodiscard]] Prepared prepare_gradient(Workplace& workplace, Case const& what);
[[nodiscard]] Prepared prepare_update(Workplace& workplace, Case const& what);
[[nodiscard]] Prepared prepare_unique(Workplace& workplace, Case const& what);

/// Calls function(std::type_identity<T>) with the type of a case's rows.
template <class Function>
auto with_row_type(Case const& what, Function const& function) {
  switch (what.dtype) {
    case ms::DType::float16:
      return function(std::type_identity<ms::float16>{});
    case ms::DType::bfloat16:
      return function(std::type_identity<ms::bfloat16>{});
    default:
      return function(std::type_identity<float>{});
  }
}
/// Calls function(std::type_identity<Id>) with the type of a case's ids.
template <class Function>
auto with_id_type(Case const& what, Function const& function) {
  return what.id_bits == 32 ? function(std::type_identity<std::int32_t>{})
                            : function(std::type_identity<std::int64_t>{});
}

/// Returns the number of rows that the ids of bags touch, as a case's Touched.
[[nodiscard]] inline Touched touched_by(ms::ops::UniqueRows<ms::Cuda> const& unique,
                                        std::int64_t width) {
  auto const rows = static_cast<double>(ms::to_host(unique.count).front());
  return {rows, rows * static_cast<double>(width)};
}

}  // namespace benchmarks::shapes
