// SPDX-License-Identifier: Apache-2.0
#include "common/long_sum_host.hpp"
#include "elementwise/layer_norm.hpp"

#include <cmath>

namespace msstream::ops::kernels {

namespace {

SplitFloat stored_mean(float const* means, float const* rests, std::int64_t row) {
  return {means[row], rests != nullptr ? rests[row] : 0.0F};
}

}  // namespace

void layer_norm(HostStream stream, LayerNormArgs const& args) {
  stream.run([args] {
    auto const width = static_cast<float>(args.width);
    for (std::int64_t row = 0; row < args.rows; ++row) {
      float const* const input = args.input + row * args.width;
      float* const output = args.output + row * args.width;
      // The mean is computed from differences to the row's first element, so that a large mean does
      // not cost the deviations digits.
      float const first = input[0];
      float const from_there =
          sum_of_terms(args.width, [=](std::int64_t c) { return input[c] - first; }) / width;
      auto const deviation_of = [=](float x) { return (x - first) - from_there; };
      float const squares = sum_of_terms(args.width, [=](std::int64_t c) {
        float const deviation = deviation_of(input[c]);
        return deviation * deviation;
      });
      float const reciprocal = 1.0F / std::sqrt(squares / width + args.epsilon);
      for (std::int64_t c = 0; c < args.width; ++c) {
        output[c] = deviation_of(input[c]) * reciprocal * args.weight[c] + args.bias[c];
      }
      auto const mean = SplitFloat::sum(first, from_there);
      args.means[row] = mean.value;
      if (args.mean_rests != nullptr) {
        args.mean_rests[row] = mean.rest;
      }
      args.reciprocals[row] = reciprocal;
    }
  });
}

void layer_norm_input_gradient(HostStream stream, LayerNormInputGradientArgs const& args) {
  stream.run([args] {
    auto const width = static_cast<float>(args.width);
    for (std::int64_t row = 0; row < args.rows; ++row) {
      std::int64_t const first = row * args.width;
      float const* const input = args.input + first;
      float const* const output_gradient = args.output_gradient + first;
      auto const mean = stored_mean(args.means, args.mean_rests, row);
      float const reciprocal = args.reciprocals[row];
      auto const normal = [=](std::int64_t c) { return mean.deviation_of(input[c]) * reciprocal; };
      auto const scaled = [output_gradient, weight = args.weight](std::int64_t c) {
        return output_gradient[c] * weight[c];
      };
      float const sum = sum_of_terms(args.width, scaled);
      float const weighted =
          sum_of_terms(args.width, [=](std::int64_t c) { return scaled(c) * normal(c); });
      for (std::int64_t c = 0; c < args.width; ++c) {
        args.input_gradient[first + c] =
            reciprocal * (scaled(c) - sum / width - normal(c) * (weighted / width));
      }
    }
  });
}

std::size_t layer_norm_workspace_bytes(HostStream, std::int64_t, std::int64_t) {
  return 0;
}

void layer_norm_parameter_gradient(HostStream stream, LayerNormParameterGradientArgs const& args) {
  stream.run([args] {
    RowTotals weights(args.weight_gradient, args.width);
    RowTotals biases(args.bias_gradient, args.width);
    for (std::int64_t row = 0; row < args.rows; ++row) {
      float const* const input = args.input + row * args.width;
      float const* const output_gradient = args.output_gradient + row * args.width;
      auto const mean = stored_mean(args.means, args.mean_rests, row);
      float const reciprocal = args.reciprocals[row];
      weights.begin_row();
      biases.begin_row();
      for (std::int64_t c = 0; c < args.width; ++c) {
        args.weight_gradient[c] += output_gradient[c] * (mean.deviation_of(input[c]) * reciprocal);
        args.bias_gradient[c] += output_gradient[c];
      }
    }
    weights.finish();
    biases.finish();
  });
}

}  // namespace msstream::ops::kernels
