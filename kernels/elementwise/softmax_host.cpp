// SPDX-License-Identifier: Apache-2.0
#include "common/id_report_host.hpp"
#include "common/long_sum_host.hpp"
#include "common/real_types.hpp"
#include "elementwise/reduce_math.hpp"
#include "elementwise/softmax.hpp"
#include "elementwise/softmax_math.hpp"

#include <msstream/base/dtype.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

namespace msstream::ops::kernels {

namespace {

struct Normaliser {
  float largest;
  float sum;  ///< sum of exp(element - largest)
};

/// Writes exp(below(input(c), largest)) to output[c] for `count` elements, where `largest` is the
/// largest element. Returns the largest element and the sum of the exponentials.
template <class Input, class Below>
Normaliser exponentials(Input const& input, float* output, std::int64_t count, Below const& below) {
  Normaliser found{Largest::nothing(), 0.0F};
  for (std::int64_t c = 0; c < count; ++c) {
    found.largest = Largest::combine(found.largest, input(c));
  }
  for (std::int64_t c = 0; c < count; ++c) {
    output[c] = std::exp(below(input(c), found.largest));
    found.sum += output[c];
  }
  if (count > kTermsOfPart) {
    found.sum = sum_of_terms(count, [=](std::int64_t c) { return output[c]; });
  }
  return found;
}

/// The floats in which a row of type T is computed before it is stored: the row itself, if it has
/// floats, otherwise an array that store() rounds to the row.
template <class T>
class RowInFloats {
 public:
  explicit RowInFloats(std::int64_t columns)
      : floats_(std::is_same_v<T, float> ? 0 : static_cast<std::size_t>(columns)) {}

  [[nodiscard]] float* of(T* row) {
    if constexpr (std::is_same_v<T, float>) {
      return row;
    } else {
      return floats_.data();
    }
  }
  void store(T* row) const {
    for (std::size_t c = 0; c < floats_.size(); ++c) {
      row[c] = from_float<T>(floats_[c]);
    }
  }

 private:
  std::vector<float> floats_;
};

template <class T, class Input>
void softmax_to(HostStream stream, SoftmaxArgs const& args) {
  stream.run([args] {
    RowInFloats<T> in_floats(args.columns);
    for (std::int64_t row = 0; row < args.rows; ++row) {
      auto* const stored = static_cast<T*>(args.output) + row * args.columns;
      float* const output = in_floats.of(stored);
      auto const length =
          args.lengths == nullptr
              ? args.columns
              : std::clamp<std::int64_t>(args.lengths[row / args.rows_a_length], 0, args.columns);
      auto const* const input = static_cast<Input const*>(args.input) + row * args.columns;
      auto const found = exponentials(
          [input](std::int64_t c) { return to_float(input[c]); }, output, length, std::minus<>());
      for (std::int64_t c = 0; c < length; ++c) {
        output[c] /= found.sum;
      }
      std::fill(output + length, output + args.columns, 0.0F);
      in_floats.store(stored);
    }
  });
}

template <class T>
void softmax_gradient_of(HostStream stream, SoftmaxGradientArgs const& args) {
  stream.run([args] {
    for (std::int64_t row = 0; row < args.rows; ++row) {
      std::int64_t const first = row * args.columns;
      auto const* const output = static_cast<T const*>(args.output) + first;
      auto const* const output_gradient = static_cast<T const*>(args.output_gradient) + first;
      auto* const input_gradient = static_cast<T*>(args.input_gradient) + first;
      float const total = sum_of_terms(args.columns, [&](std::int64_t c) {
        return weighted(to_float(output[c]), to_float(output_gradient[c]));
      });
      for (std::int64_t c = 0; c < args.columns; ++c) {
        input_gradient[c] =
            from_float<T>(gradient_of(to_float(output[c]), to_float(output_gradient[c]), total));
      }
    }
  });
}

template <class T, class Gradient>
void cross_entropy_of(HostStream stream, CrossEntropyArgs const& args) {
  stream.run([args] {
    std::uint64_t out_of_range = 0;
    SmoothedTarget const target(args);
    RowInFloats<Gradient> in_floats(args.columns);
    for (std::int64_t row = 0; row < args.rows; ++row) {
      auto* const stored = static_cast<Gradient*>(args.gradients) + row * args.columns;
      float* const gradients = in_floats.of(stored);
      ClassOfRow const chosen(args, row);
      if (args.counted != nullptr) {
        args.counted[row] = chosen.counted;
      }
      if (chosen.is_bad && out_of_range++ == 0) {
        spring_trap(args.report, chosen.column, args.columns);
      }
      if (!chosen.counts) {
        std::fill_n(stored, args.columns, Gradient{});
        args.losses[row] = 0.0F;
        continue;
      }
      LogitsOfRow<T> const logits(args, row, chosen.column);
      auto const logit = [&](std::int64_t c) { return logits.at(c); };
      auto const found = exponentials(logit, gradients, args.columns, below_largest);
      auto const below = [&](std::int64_t c) { return below_largest(logit(c), found.largest); };
      float const total = args.smoothing == 0.0F ? 0.0F : sum_of_terms(args.columns, below);
      args.losses[row] =
          chosen.weight * target.loss(std::log(found.sum), below(chosen.column), total);
      for (std::int64_t c = 0; c < args.columns; ++c) {
        gradients[c] = chosen.weight * (gradients[c] / found.sum - target.at(c == chosen.column));
      }
      in_floats.store(stored);
    }
    count_out_of_range(args.report, out_of_range);
  });
}

}  // namespace

void softmax(HostStream stream, SoftmaxArgs const& args) {
  with_real_types(
      "softmax: an output", args.dtype, args.input_dtype, [&](auto type, auto input_type) {
        softmax_to<typename decltype(type)::type, typename decltype(input_type)::type>(stream,
                                                                                       args);
      });
}

void softmax_gradient(HostStream stream, SoftmaxGradientArgs const& args) {
  with_real_type("softmax_gradient: an output", args.dtype, [&](auto type) {
    softmax_gradient_of<typename decltype(type)::type>(stream, args);
  });
}

void softmax_cross_entropy(HostStream stream, CrossEntropyArgs const& args) {
  with_real_types(
      "softmax_cross_entropy: logits",
      args.dtype,
      args.gradient_dtype,
      [&](auto type, auto gradient) {
        cross_entropy_of<typename decltype(type)::type, typename decltype(gradient)::type>(stream,
                                                                                           args);
      });
}

}  // namespace msstream::ops::kernels
