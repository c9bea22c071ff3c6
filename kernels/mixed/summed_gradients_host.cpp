// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"
#include "elementwise/unary_math.hpp"
#include "mixed/summed_gradients.hpp"

#include <cstddef>
#include <vector>

namespace msstream::ops::kernels {
namespace {

/// Calls gradient_of(element), which returns the addend of a column's sum, for all elements, and
/// stores the sums, which are added in float64.
template <class GradientOf>
void sum_columns(std::int64_t rows,
                 std::int64_t columns,
                 float* sums,
                 GradientOf const& gradient_of) {
  std::vector<double> totals(static_cast<std::size_t>(columns), 0.0);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      totals[static_cast<std::size_t>(column)] +=
          static_cast<double>(gradient_of(row * columns + column));
    }
  }
  for (std::int64_t column = 0; column < columns; ++column) {
    sums[column] = static_cast<float>(totals[static_cast<std::size_t>(column)]);
  }
}

}  // namespace

void activation_gradient_sums(HostStream stream, ActivationSumsArgs const& args) {
  with_real_type("activation_gradient_sums: the gradient", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    stream.run([args] {
      auto const* const saved = static_cast<T const*>(args.saved);
      auto const* const gradient = static_cast<T const*>(args.output_gradient);
      auto* const before = static_cast<T*>(args.input_gradient);
      auto const sum_of = [&](auto const& gradient_at) {
        sum_columns(args.rows, args.columns, args.sums, [=](std::int64_t i) {
          float const value = gradient_at(i, to_float(gradient[i]));
          if (before != nullptr) {
            before[i] = from_float<T>(value);
          }
          return value;
        });
      };
      switch (args.activation) {
        case Activation::none:
          return sum_of([](std::int64_t, float dy) { return dy; });
        case Activation::relu:
          return sum_of([=](std::int64_t i, float dy) {
            return Rectified{}.gradient(to_float(saved[i]), dy);
          });
        case Activation::gelu_tanh:
          return sum_of([=](std::int64_t i, float dy) {
            return GeluByTangent{}.gradient(to_float(saved[i]), dy);
          });
      }
    });
  });
}

void cross_gradient_sums(HostStream stream, CrossSumsArgs const& args) {
  with_real_type("cross_gradient_sums: the gradient", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    stream.run([args] {
      auto const* const first = static_cast<T const*>(args.first);
      auto const* const projected = static_cast<T const*>(args.projected);
      auto const* const gradient = static_cast<T const*>(args.output_gradient);
      auto* const first_gradient = static_cast<T*>(args.first_gradient);
      auto* const projected_gradient = static_cast<T*>(args.projected_gradient);
      sum_columns(args.rows, args.columns, args.sums, [=](std::int64_t i) {
        float const of_output = to_float(gradient[i]);
        float const of_projected = of_output * to_float(first[i]);
        if (first_gradient != nullptr) {
          first_gradient[i] = from_float<T>(of_output * to_float(projected[i]));
        }
        projected_gradient[i] = from_float<T>(of_projected);
        return of_projected;
      });
    });
  });
}

}  // namespace msstream::ops::kernels
