// SPDX-License-Identifier: Apache-2.0
#include "elementwise/binary.hpp"
#include "elementwise/binary_math.hpp"

namespace msstream::ops::kernels {

namespace {

/// Computes a binary function for one row of the innermost dimension. Each operand is contiguous or
/// one repeated element.
template <class Function>
void map_row(Function function,
             float const* left,
             bool left_repeats,
             float const* right,
             bool right_repeats,
             float* output,
             std::int64_t count) {
  if (left_repeats) {
    float const value = *left;
    for (std::int64_t i = 0; i < count; ++i) {
      output[i] = function(value, right[i]);
    }
  } else if (right_repeats) {
    float const value = *right;
    for (std::int64_t i = 0; i < count; ++i) {
      output[i] = function(left[i], value);
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      output[i] = function(left[i], right[i]);
    }
  }
}

template <class Function>
void map_rows(BinaryArgs const& args, Function function) {
  auto const& plan = args.plan;
  int const last = plan.rank - 1;
  std::int64_t const columns = plan.extents[last];
  std::int64_t at[Shape::kMaxRank] = {};
  std::int64_t left = 0;
  std::int64_t right = 0;
  for (std::int64_t first = 0; first < plan.count; first += columns) {
    map_row(function,
            args.left + left,
            plan.left_strides[last] == 0,
            args.right + right,
            plan.right_strides[last] == 0,
            args.output + first,
            columns);
    // Advances the coordinates to the next row, the innermost dimension but one first.
    for (int d = last - 1; d >= 0; --d) {
      left += plan.left_strides[d];
      right += plan.right_strides[d];
      if (++at[d] < plan.extents[d]) {
        break;
      }
      left -= at[d] * plan.left_strides[d];
      right -= at[d] * plan.right_strides[d];
      at[d] = 0;
    }
  }
}

}  // namespace

void binary(HostStream stream, BinaryArgs const& args) {
  stream.run(
      [args] { with_function(args.function, [&](auto function) { map_rows(args, function); }); });
}

void multiply_gradient(HostStream stream, MultiplyGradientArgs const& args) {
  stream.run([args] {
    for (std::int64_t i = 0; i < args.count; ++i) {
      float const left = args.left[i];
      float const gradient = args.output_gradient[i];
      float const left_gradient = gradient * args.right[i];
      args.right_gradient[i] = gradient * left;
      args.left_gradient[i] = left_gradient;
    }
  });
}

}  // namespace msstream::ops::kernels
