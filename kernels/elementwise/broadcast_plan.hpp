// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/shape.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace msstream::ops::kernels {

namespace detail {

/// Returns the extent of dimension number `back` of a shape, counted from the last dimension, which
/// is number 0. A dimension that the shape lacks has an extent of 1.
inline std::int64_t extent_from_back(Shape const& shape, std::size_t back) {
  return back < shape.rank() ? shape[shape.rank() - 1 - back] : 1;
}

}  // namespace detail

/// Returns the shape to which two shapes broadcast by NumPy's rule: shapes are aligned at their
/// last dimensions, and an operand is repeated along a dimension that it lacks or in which its
/// extent is 1. Returns null if extents differ and neither is 1.
inline std::optional<Shape> broadcast_shape(Shape const& left, Shape const& right) {
  auto const rank = std::max(left.rank(), right.rank());
  std::int64_t extents[Shape::kMaxRank] = {};
  for (std::size_t back = 0; back < rank; ++back) {
    auto const l = detail::extent_from_back(left, back);
    auto const r = detail::extent_from_back(right, back);
    if (l != r && l != 1 && r != 1) {
      return std::nullopt;
    }
    extents[rank - 1 - back] = l == 1 ? r : l;
  }
  return Shape(std::span<std::int64_t const>(extents, rank));
}

/// The extents and strides with which to traverse two dense row-major operands that broadcast, in
/// as few dimensions as possible: dimensions of extent 1 are left out, and adjacent dimensions that
/// both operands cross with one stride are merged.
///
///   same shapes               1 dimension    strides 1 and 1
///   with a scalar             1              1 and 0
///   with a row vector         2              (columns, 1) and (0, 1)
///   with a column vector      2              (columns, 1) and (1, 0)
///   anything else             up to 4        0 where an operand is repeated
///
/// The strides of the last dimension are 0 or 1, and not both are 0. A result of one element has
/// one dimension.
struct BroadcastPlan {
  int rank = 0;
  std::int64_t count = 1;                      ///< elements of the result
  std::int64_t extents[Shape::kMaxRank] = {};  ///< outermost dimension first
  std::int64_t left_strides[Shape::kMaxRank] = {};
  std::int64_t right_strides[Shape::kMaxRank] = {};

  friend bool operator==(BroadcastPlan const&, BroadcastPlan const&) = default;
};

/// Returns the plan for two shapes that broadcast. Whether they broadcast is not checked.
inline BroadcastPlan plan_broadcast(Shape const& left, Shape const& right) {
  BroadcastPlan plan;  // innermost dimension first, until the reversal at the end
  std::int64_t left_elements = 1;
  std::int64_t right_elements = 1;
  for (std::size_t back = 0; back < std::max(left.rank(), right.rank()); ++back) {
    auto const l = detail::extent_from_back(left, back);
    auto const r = detail::extent_from_back(right, back);
    auto const extent = l == 1 ? r : l;
    auto const left_stride = l == 1 ? 0 : left_elements;
    auto const right_stride = r == 1 ? 0 : right_elements;
    left_elements *= l;
    right_elements *= r;
    plan.count *= extent;
    if (extent == 1) {
      continue;
    }
    int const inside = plan.rank - 1;
    if (inside >= 0 && left_stride == plan.left_strides[inside] * plan.extents[inside] &&
        right_stride == plan.right_strides[inside] * plan.extents[inside]) {
      plan.extents[inside] *= extent;
      continue;
    }
    plan.extents[plan.rank] = extent;
    plan.left_strides[plan.rank] = left_stride;
    plan.right_strides[plan.rank] = right_stride;
    ++plan.rank;
  }
  if (plan.rank == 0) {
    plan.rank = 1;
    plan.extents[0] = plan.left_strides[0] = plan.right_strides[0] = 1;
  }
  std::reverse(plan.extents, plan.extents + plan.rank);
  std::reverse(plan.left_strides, plan.left_strides + plan.rank);
  std::reverse(plan.right_strides, plan.right_strides + plan.rank);
  return plan;
}

/// A dense row-major array seen as [outer, axis, inner], whose middle dimension is reduced.
struct AxisView {
  std::int64_t outer;
  std::int64_t axis;
  std::int64_t inner;

  [[nodiscard]] std::int64_t outputs() const { return outer * inner; }
  [[nodiscard]] std::int64_t count() const { return outer * axis * inner; }
  friend bool operator==(AxisView const&, AxisView const&) = default;
};

/// The reductions, each over one axis, that undo a broadcast, in the order in which they run.
struct SumToPlan {
  int count = 0;
  AxisView steps[2] = {};  ///< each step reduces the result of the previous step

  friend bool operator==(SumToPlan const&, SumToPlan const&) = default;
};

/// Returns the reductions that sum an array of shape `from` to shape `to`, which must broadcast to
/// `from`. Adjacent dimensions that are all kept, or all summed, count as one dimension, so that at
/// most two reductions are needed.
inline SumToPlan plan_sum_to(Shape const& from, Shape const& to) {
  struct Group {
    bool kept;
    std::int64_t extent;
  };
  Group groups[Shape::kMaxRank] = {};  // innermost group first
  int group_count = 0;
  for (std::size_t back = 0; back < from.rank(); ++back) {
    auto const extent = detail::extent_from_back(from, back);
    bool const kept = detail::extent_from_back(to, back) == extent;
    if (extent == 1) {
      continue;
    }
    if (group_count > 0 && groups[group_count - 1].kept == kept) {
      groups[group_count - 1].extent *= extent;
    } else {
      groups[group_count++] = {kept, extent};
    }
  }
  SumToPlan plan;
  std::int64_t inner = 1;
  for (int g = 0; g < group_count; ++g) {
    if (groups[g].kept) {
      inner *= groups[g].extent;
      continue;
    }
    std::int64_t outer = 1;
    for (int outside = g + 1; outside < group_count; ++outside) {
      outer *= groups[outside].extent;
    }
    plan.steps[plan.count++] = {outer, groups[g].extent, inner};
  }
  return plan;
}

}  // namespace msstream::ops::kernels
