// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/offset_policy.hpp>
#include <msstream/ops/segment_reduction.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <utility>

namespace msstream::ops {

/// Selects the result of a reduction for a segment without rows. It has no other effect.
enum class SegmentSemantics : std::uint8_t {
  /// As tf.math.segment_* and unsorted_segment_*: 0 for a sum, mean or sqrtn, and 1 for a product.
  /// A maximum and a minimum are 0 by offsets and by sorted ids; by unsorted ids they are the
  /// lowest and the largest float.
  tensorflow,
  /// As torch.segment_reduce, by offsets and by ids: 0 for a sum, 1 for a product, -infinity for a
  /// maximum, infinity for a minimum, and NaN, which is 0 / 0, for a mean and a sqrtn.
  torch
};

/// The results of a forward reduction that its gradient needs: the number of value rows, and for
/// max, min and prod also the `values` [capacity, width] and the `reduced` [segments, width].
template <Runtime R = DefaultRuntime>
struct SegmentForward {
  std::int64_t capacity;
  std::optional<Tensor<float, R>> values = {};
  std::optional<Tensor<float, R>> reduced = {};

  // NOLINTNEXTLINE(google-explicit-constructor): sums, means and sqrtn need a capacity only
  SegmentForward(std::int64_t value_rows) : capacity(value_rows) {}
  SegmentForward(Tensor<float, R> all_values, Tensor<float, R> reduced_values)
      : capacity(all_values.shape().rank() > 0 ? all_values.shape()[0] : 0),
        values(std::move(all_values)),
        reduced(std::move(reduced_values)) {}
  /// For the library itself: the same results, on a device of whichever runtime.
  template <Runtime Other>
    requires(std::same_as<R, detail::AnyRuntime> && !std::same_as<Other, R>)
  SegmentForward(SegmentForward<Other> const& forward)  // NOLINT(google-explicit-constructor):
                                                        // loses only the type
      : capacity(forward.capacity), values(forward.values), reduced(forward.reduced) {}
};

}  // namespace msstream::ops
