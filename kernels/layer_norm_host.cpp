// SPDX-License-Identifier: Apache-2.0
#include <msstream/ops/kernels/layer_norm.hpp>

#include <algorithm>
#include <cmath>

namespace msstream::ops::kernels {

void layer_norm(HostStream stream, LayerNormArgs const& args) {
  stream.run([args] {
    auto const width = static_cast<float>(args.width);
    for (std::int64_t row = 0; row < args.rows; ++row) {
      float const* const input = args.input + row * args.width;
      float* const output = args.output + row * args.width;
      float sum = 0.0F;
      for (std::int64_t c = 0; c < args.width; ++c) {
        sum += input[c];
      }
      float const mean = sum / width;
      float squares = 0.0F;
      for (std::int64_t c = 0; c < args.width; ++c) {
        float const deviation = input[c] - mean;
        squares += deviation * deviation;
      }
      float const reciprocal = 1.0F / std::sqrt(squares / width + args.epsilon);
      for (std::int64_t c = 0; c < args.width; ++c) {
        output[c] = (input[c] - mean) * reciprocal * args.gain[c] + args.shift[c];
      }
      args.means[row] = mean;
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
      float const mean = args.means[row];
      float const reciprocal = args.reciprocals[row];
      float sum = 0.0F;
      float weighted = 0.0F;
      for (std::int64_t c = 0; c < args.width; ++c) {
        float const gained = output_gradient[c] * args.gain[c];
        sum += gained;
        weighted += gained * ((input[c] - mean) * reciprocal);
      }
      for (std::int64_t c = 0; c < args.width; ++c) {
        float const normal = (input[c] - mean) * reciprocal;
        float const gained = output_gradient[c] * args.gain[c];
        args.input_gradient[first + c] =
            reciprocal * (gained - sum / width - normal * (weighted / width));
      }
    }
  });
}

std::size_t layer_norm_workspace_bytes(HostStream, std::int64_t, std::int64_t) {
  return 0;
}

void layer_norm_parameter_gradient(HostStream stream, LayerNormParameterGradientArgs const& args) {
  stream.run([args] {
    std::fill_n(args.gain_gradient, args.width, 0.0F);
    std::fill_n(args.shift_gradient, args.width, 0.0F);
    for (std::int64_t row = 0; row < args.rows; ++row) {
      float const* const input = args.input + row * args.width;
      float const* const output_gradient = args.output_gradient + row * args.width;
      float const mean = args.means[row];
      float const reciprocal = args.reciprocals[row];
      for (std::int64_t c = 0; c < args.width; ++c) {
        args.gain_gradient[c] += output_gradient[c] * ((input[c] - mean) * reciprocal);
        args.shift_gradient[c] += output_gradient[c];
      }
    }
  });
}

}  // namespace msstream::ops::kernels
