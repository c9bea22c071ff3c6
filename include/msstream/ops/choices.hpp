// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <cstdint>

namespace msstream::ops {

/// The function that a dense layer applies to its outputs. relu is max(x, 0), and NaN stays NaN.
/// gelu_tanh is the approximation of gelu by a hyperbolic tangent: see gelu_tanh() of
/// activation.hpp.
enum class Activation : std::uint8_t { none, relu, gelu_tanh };

/// The reduction of the rows of one bag to one output row. w is the weight of an id, or 1 without
/// weights.
///
/// sum: Σ w·row. mean: Σ w·row / Σ w. sqrtn: Σ w·row / sqrt(Σ w²). max: the largest element of each
/// column, without weights; NaN is larger than any number. none: no reduction, one output row per
/// id, times w. A bag without a valid id gives 0, unless it has a default id. A bag whose divisor
/// is 0 gives 0.
enum class Pooling : std::uint8_t { sum, mean, sqrtn, max, none };

/// The ways to report an id outside [0, rows), and a bag whose offsets do not ascend within the ids
/// or values. In each, such an id contributes nothing, and such a bag is empty.
enum class OutOfRange : std::uint8_t {
  drop,   ///< ignores the id, in the sum and in the mean's count; the bag is empty
  trap,   ///< like drop, and the next host synchronisation throws std::out_of_range
  count,  ///< like drop, and increments a counter
};

/// The reduction of the rows of one segment to one row. sqrtn is the sum divided by the square root
/// of the number of rows.
enum class SegmentReduction : std::uint8_t { sum, mean, sqrtn, max, min, prod };

/// The order of the ids that give the segment of each row. sorted: the ids ascend. unsorted: any
/// order.
enum class SegmentIds : std::uint8_t { sorted, unsorted };

/// Selects the result of a reduction for a segment without rows, and nothing else.
enum class SegmentSemantics : std::uint8_t {
  /// The results of tf.math.segment_* and unsorted_segment_*: 0 for a sum, mean or sqrtn, and 1 for
  /// a product. A maximum and a minimum are 0 by offsets and by sorted ids; by unsorted ids they
  /// are the lowest and the largest float.
  tensorflow,
  /// The results of torch.segment_reduce, by offsets and by ids: 0 for a sum, 1 for a product,
  /// -infinity for a maximum, infinity for a minimum, and NaN, which is 0 / 0, for a mean and a
  /// sqrtn.
  torch
};

/// The divisor of a loss that is a mean: the number of elements, or the sum of their weights, so
/// that elements of weight 0, such as the padding of a last batch, do not make the mean smaller.
enum class LossReduction : std::uint8_t { mean, weighted_mean };

/// The order in which unique() numbers the distinct ids.
enum class UniqueOrder : std::uint8_t { ascending, first_occurrence };

}  // namespace msstream::ops
