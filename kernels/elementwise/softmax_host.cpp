// SPDX-License-Identifier: Apache-2.0
#include "common/id_report_host.hpp"
#include "common/long_sum_host.hpp"
#include "elementwise/reduce_math.hpp"
#include "elementwise/softmax.hpp"
#include "elementwise/softmax_math.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

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

}  // namespace

void softmax(HostStream stream, SoftmaxArgs const& args) {
  stream.run([args] {
    for (std::int64_t row = 0; row < args.rows; ++row) {
      float* const output = args.output + row * args.columns;
      auto const length =
          args.lengths == nullptr
              ? args.columns
              : std::clamp<std::int64_t>(args.lengths[row / args.rows_a_length], 0, args.columns);
      float const* const input = args.input + row * args.columns;
      auto const found = exponentials(
          [input](std::int64_t c) { return input[c]; }, output, length, std::minus<>());
      for (std::int64_t c = 0; c < length; ++c) {
        output[c] /= found.sum;
      }
      std::fill(output + length, output + args.columns, 0.0F);
    }
  });
}

void softmax_gradient(HostStream stream, SoftmaxGradientArgs const& args) {
  stream.run([args] {
    for (std::int64_t row = 0; row < args.rows; ++row) {
      std::int64_t const first = row * args.columns;
      float const total = sum_of_terms(args.columns, [&](std::int64_t c) {
        return weighted(args.output[first + c], args.output_gradient[first + c]);
      });
      for (std::int64_t c = first; c < first + args.columns; ++c) {
        args.input_gradient[c] = gradient_of(args.output[c], args.output_gradient[c], total);
      }
    }
  });
}

void softmax_cross_entropy(HostStream stream, CrossEntropyArgs const& args) {
  stream.run([args] {
    std::uint64_t out_of_range = 0;
    SmoothedTarget const target(args);
    for (std::int64_t row = 0; row < args.rows; ++row) {
      float* const gradients = args.gradients + row * args.columns;
      ClassOfRow const chosen(args, row);
      if (args.counted != nullptr) {
        args.counted[row] = chosen.counted;
      }
      if (chosen.is_bad && out_of_range++ == 0) {
        spring_trap(args.report, chosen.column, args.columns);
      }
      if (!chosen.counts) {
        std::fill_n(gradients, args.columns, 0.0F);
        args.losses[row] = 0.0F;
        continue;
      }
      LogitsOfRow const logits(args, row, chosen.column);
      auto const logit = [&](std::int64_t c) { return logits.at(c); };
      auto const found = exponentials(logit, gradients, args.columns, below_largest);
      auto const below = [&](std::int64_t c) { return below_largest(logit(c), found.largest); };
      float const total = args.smoothing == 0.0F ? 0.0F : sum_of_terms(args.columns, below);
      args.losses[row] =
          chosen.weight * target.loss(std::log(found.sum), below(chosen.column), total);
      for (std::int64_t c = 0; c < args.columns; ++c) {
        gradients[c] = chosen.weight * (gradients[c] / found.sum - target.at(c == chosen.column));
      }
    }
    count_out_of_range(args.report, out_of_range);
  });
}

}  // namespace msstream::ops::kernels
