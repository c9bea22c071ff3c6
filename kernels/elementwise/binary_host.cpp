// SPDX-License-Identifier: Apache-2.0
#include "elementwise/binary.hpp"
#include "elementwise/binary_math.hpp"

#include <msstream/base/dtype.hpp>

#include <stdexcept>

namespace msstream::ops::kernels {

void refuse_half() {
  throw std::invalid_argument("binary: only sums and products have half precision");
}

namespace {

/// Computes a binary function for one row of the innermost dimension. Each operand is contiguous or
/// one repeated element.
template <class T, class Function>
void map_row(Function function,
             T const* left,
             bool left_repeats,
             T const* right,
             bool right_repeats,
             T* output,
             std::int64_t count) {
  if (left_repeats) {
    float const value = to_float(*left);
    for (std::int64_t i = 0; i < count; ++i) {
      output[i] = from_float<T>(function(value, to_float(right[i])));
    }
  } else if (right_repeats) {
    float const value = to_float(*right);
    for (std::int64_t i = 0; i < count; ++i) {
      output[i] = from_float<T>(function(to_float(left[i]), value));
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      output[i] = from_float<T>(function(to_float(left[i]), to_float(right[i])));
    }
  }
}

template <class T, class Function>
void map_rows(BinaryArgs const& args, Function function) {
  auto const& plan = args.plan;
  int const last = plan.rank - 1;
  std::int64_t const columns = plan.extents[last];
  std::int64_t at[Shape::kMaxRank] = {};
  std::int64_t left = 0;
  std::int64_t right = 0;
  for (std::int64_t first = 0; first < plan.count; first += columns) {
    map_row(function,
            static_cast<T const*>(args.left) + left,
            plan.left_strides[last] == 0,
            static_cast<T const*>(args.right) + right,
            plan.right_strides[last] == 0,
            static_cast<T*>(args.output) + first,
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
  with_function(args.function, args.dtype, [&](auto type, auto function) {
    stream.run([args, function] { map_rows<typename decltype(type)::type>(args, function); });
  });
}

void multiply_gradient(HostStream stream, MultiplyGradientArgs const& args) {
  with_real_type("multiply_gradient: an operand", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    stream.run([args] {
      auto const* const lefts = static_cast<T const*>(args.left);
      auto const* const rights = static_cast<T const*>(args.right);
      auto const* const gradients = static_cast<T const*>(args.output_gradient);
      for (std::int64_t i = 0; i < args.count; ++i) {
        float const left = to_float(lefts[i]);
        float const gradient = to_float(gradients[i]);
        float const left_gradient = gradient * to_float(rights[i]);
        static_cast<T*>(args.right_gradient)[i] = from_float<T>(gradient * left);
        static_cast<T*>(args.left_gradient)[i] = from_float<T>(left_gradient);
      }
    });
  });
}

}  // namespace msstream::ops::kernels
