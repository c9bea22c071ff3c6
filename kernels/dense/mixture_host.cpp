// SPDX-License-Identifier: Apache-2.0
#include "common/long_sum_host.hpp"
#include "dense/mixture.hpp"

#include <algorithm>
#include <cmath>

namespace msstream::ops::kernels {

namespace {

void softmax(float const* logits, int count, float* weights) {
  if (count == 0) {
    return;
  }
  float const highest = *std::max_element(logits, logits + count);
  float sum = 0.0F;
  for (int k = 0; k < count; ++k) {
    weights[k] = std::exp(logits[k] - highest);
    sum += weights[k];
  }
  for (int k = 0; k < count; ++k) {
    weights[k] /= sum;
  }
}

float dot(float const* left, float const* right, std::int64_t count) {
  return sum_of_terms(count, [=](std::int64_t i) { return left[i] * right[i]; });
}

void add_scaled(float factor, float const* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] += factor * from[i];
  }
}

}  // namespace

void mix_experts(HostStream stream, MixtureArgs const& args) {
  stream.run([args] {
    auto const& table = args.table;
    for (int gate = 0; gate < table.gates; ++gate) {
      auto const begin = table.first_choice[gate];
      auto const choices = table.first_choice[gate + 1] - begin;
      for (std::int64_t row = 0; row < args.batch; ++row) {
        auto const place = row * args.row_stride[gate];
        auto* const weights = args.weights.first[gate] + place;
        softmax(args.logits.first[gate] + place, choices, weights);
        auto* const output = args.output + (gate * args.batch + row) * args.width;
        std::fill_n(output, args.width, 0.0F);
        for (int k = 0; k < choices; ++k) {
          auto const* const expert = args.experts[table.expert[begin + k]];
          add_scaled(weights[k], expert + row * args.width, output, args.width);
        }
      }
    }
  });
}

void mix_experts_gradient(HostStream stream, MixtureGradientArgs const& args) {
  stream.run([args] {
    auto const& table = args.table;
    auto const count = args.batch * args.width;
    for (int expert = 0; expert < args.expert_count; ++expert) {
      if (args.expert_gradients[expert] != nullptr) {
        std::fill_n(args.expert_gradients[expert], count, 0.0F);
      }
    }
    for (int gate = 0; gate < table.gates; ++gate) {
      auto const begin = table.first_choice[gate];
      auto const choices = table.first_choice[gate + 1] - begin;
      for (std::int64_t row = 0; row < args.batch; ++row) {
        auto const* const weights = args.weights.first[gate] + row * args.row_stride[gate];
        auto* const logits_gradient =
            args.logits_gradient.first[gate] + row * args.row_stride[gate];
        auto const* const gradient = args.output_gradient + (gate * args.batch + row) * args.width;
        float weighted = 0.0F;
        for (int k = 0; k < choices; ++k) {
          int const expert = table.expert[begin + k];
          auto const place = row * args.width;
          float const by_weight = dot(gradient, args.experts[expert] + place, args.width);
          logits_gradient[k] = by_weight;
          weighted += weights[k] * by_weight;
          if (args.expert_gradients[expert] != nullptr) {
            add_scaled(weights[k], gradient, args.expert_gradients[expert] + place, args.width);
          }
        }
        for (int k = 0; k < choices; ++k) {
          logits_gradient[k] = weights[k] * (logits_gradient[k] - weighted);
        }
      }
    }
  });
}

}  // namespace msstream::ops::kernels
