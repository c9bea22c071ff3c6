// SPDX-License-Identifier: Apache-2.0
#include "common/long_sum_host.hpp"
#include "common/real_types.hpp"
#include "normalize/layer_norm.hpp"

#include <msstream/base/dtype.hpp>

#include <cmath>

namespace msstream::ops::kernels {

namespace {

SplitFloat stored_mean(float const* means, float const* rests, std::int64_t row) {
  return {means[row], rests != nullptr ? rests[row] : 0.0F};
}

template <class T>
void layer_norm_of(HostStream stream, LayerNormArgs const& args) {
  stream.run([args] {
    auto const width = static_cast<float>(args.width);
    for (std::int64_t row = 0; row < args.rows; ++row) {
      auto const* const input = static_cast<T const*>(args.input) + row * args.width;
      auto* const output = static_cast<T*>(args.output) + row * args.width;
      // The mean is computed from differences to the row's first element, so that a large mean does
      // not cost the deviations digits.
      float const first = to_float(input[0]);
      float const from_there =
          sum_of_terms(args.width, [=](std::int64_t c) { return to_float(input[c]) - first; }) /
          width;
      auto const deviation_of = [=](float x) { return (x - first) - from_there; };
      float const squares = sum_of_terms(args.width, [=](std::int64_t c) {
        float const deviation = deviation_of(to_float(input[c]));
        return deviation * deviation;
      });
      float const reciprocal = 1.0F / std::sqrt(squares / width + args.epsilon);
      for (std::int64_t c = 0; c < args.width; ++c) {
        output[c] = from_float<T>(deviation_of(to_float(input[c])) * reciprocal * args.weight[c] +
                                  args.bias[c]);
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

template <class T>
void input_gradient_of(HostStream stream, LayerNormInputGradientArgs const& args) {
  stream.run([args] {
    auto const width = static_cast<float>(args.width);
    for (std::int64_t row = 0; row < args.rows; ++row) {
      std::int64_t const first = row * args.width;
      auto const* const input = static_cast<T const*>(args.input) + first;
      auto const* const output_gradient = static_cast<T const*>(args.output_gradient) + first;
      auto* const input_gradient = static_cast<T*>(args.input_gradient) + first;
      auto const mean = stored_mean(args.means, args.mean_rests, row);
      float const reciprocal = args.reciprocals[row];
      auto const normal = [=](std::int64_t c) {
        return mean.deviation_of(to_float(input[c])) * reciprocal;
      };
      auto const scaled = [output_gradient, weight = args.weight](std::int64_t c) {
        return to_float(output_gradient[c]) * weight[c];
      };
      float const sum = sum_of_terms(args.width, scaled);
      float const weighted =
          sum_of_terms(args.width, [=](std::int64_t c) { return scaled(c) * normal(c); });
      for (std::int64_t c = 0; c < args.width; ++c) {
        input_gradient[c] =
            from_float<T>(reciprocal * (scaled(c) - sum / width - normal(c) * (weighted / width)));
      }
    }
  });
}

template <class T>
void parameter_gradient_of(HostStream stream, LayerNormParameterGradientArgs const& args) {
  stream.run([args] {
    RowTotals weights(args.weight_gradient, args.width);
    RowTotals biases(args.bias_gradient, args.width);
    for (std::int64_t row = 0; row < args.rows; ++row) {
      auto const* const input = static_cast<T const*>(args.input) + row * args.width;
      auto const* const output_gradient =
          static_cast<T const*>(args.output_gradient) + row * args.width;
      auto const mean = stored_mean(args.means, args.mean_rests, row);
      float const reciprocal = args.reciprocals[row];
      weights.begin_row();
      biases.begin_row();
      for (std::int64_t c = 0; c < args.width; ++c) {
        float const gradient = to_float(output_gradient[c]);
        args.weight_gradient[c] += gradient * (mean.deviation_of(to_float(input[c])) * reciprocal);
        args.bias_gradient[c] += gradient;
      }
    }
    weights.finish();
    biases.finish();
  });
}

}  // namespace

void layer_norm(HostStream stream, LayerNormArgs const& args) {
  with_real_type("layer_norm: an input", args.dtype, [&](auto type) {
    layer_norm_of<typename decltype(type)::type>(stream, args);
  });
}

void layer_norm_input_gradient(HostStream stream, LayerNormInputGradientArgs const& args) {
  with_real_type("layer_norm_input_gradient: an input", args.dtype, [&](auto type) {
    input_gradient_of<typename decltype(type)::type>(stream, args);
  });
}

std::size_t layer_norm_workspace_bytes(HostStream, std::int64_t, std::int64_t) {
  return 0;
}

void layer_norm_parameter_gradient(HostStream stream, LayerNormParameterGradientArgs const& args) {
  with_real_type("layer_norm_parameter_gradient: an input", args.dtype, [&](auto type) {
    parameter_gradient_of<typename decltype(type)::type>(stream, args);
  });
}

void layer_norm_gradient(HostStream stream,
                         LayerNormParameterGradientArgs const& args,
                         float const* weight,
                         void* input_gradient) {
  layer_norm_input_gradient(stream,
                            {args.input,
                             weight,
                             args.means,
                             args.reciprocals,
                             args.output_gradient,
                             input_gradient,
                             args.rows,
                             args.width,
                             args.mean_rests,
                             args.dtype});
  layer_norm_parameter_gradient(stream, args);
}

}  // namespace msstream::ops::kernels
