// SPDX-License-Identifier: Apache-2.0
#include "common/long_sum_host.hpp"
#include "common/real_types.hpp"
#include "common/widened_host.hpp"
#include "dense/mixture.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>

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

/// Returns the outputs of experts, each of `count` elements, as floats; null experts stay null.
std::deque<Widened> widened_experts(void const* const (&experts)[GateTable::kMostExperts],
                                    std::int64_t count,
                                    DType dtype) {
  std::deque<Widened> floats;
  for (auto const* const expert : experts) {
    floats.emplace_back(expert, count, dtype);
  }
  return floats;
}

}  // namespace

void mix_experts(HostStream stream, MixtureArgs const& args) {
  require_real_type("mix_experts: an expert", args.dtype);
  stream.run([args] {
    auto const& table = args.table;
    auto const count = args.batch * args.width;
    auto const experts = widened_experts(args.experts, count, args.dtype);
    Narrowed outputs(args.output, table.gates * count, args.dtype);
    for (int gate = 0; gate < table.gates; ++gate) {
      auto const begin = table.first_choice[gate];
      auto const choices = table.first_choice[gate + 1] - begin;
      for (std::int64_t row = 0; row < args.batch; ++row) {
        auto const place = row * args.row_stride[gate];
        auto* const weights = args.weights.first[gate] + place;
        softmax(args.logits.first[gate] + place, choices, weights);
        auto* const output = outputs.data() + (gate * args.batch + row) * args.width;
        std::fill_n(output, args.width, 0.0F);
        for (int k = 0; k < choices; ++k) {
          auto const* const expert = experts[table.expert[begin + k]].data();
          add_scaled(weights[k], expert + row * args.width, output, args.width);
        }
      }
    }
  });
}

void mix_experts_gradient(HostStream stream, MixtureGradientArgs const& args) {
  require_real_type("mix_experts_gradient: an expert", args.dtype);
  stream.run([args] {
    auto const& table = args.table;
    auto const count = args.batch * args.width;
    auto const experts = widened_experts(args.experts, count, args.dtype);
    Widened const output_gradient(args.output_gradient, table.gates * count, args.dtype);
    std::deque<Narrowed> expert_gradients;
    for (int expert = 0; expert < args.expert_count; ++expert) {
      bool const wanted = args.expert_gradients[expert] != nullptr;
      auto& gradient = expert_gradients.emplace_back(
          args.expert_gradients[expert], wanted ? count : 0, args.dtype);
      if (wanted) {
        std::fill_n(gradient.data(), count, 0.0F);
      }
    }
    for (int gate = 0; gate < table.gates; ++gate) {
      auto const begin = table.first_choice[gate];
      auto const choices = table.first_choice[gate + 1] - begin;
      for (std::int64_t row = 0; row < args.batch; ++row) {
        auto const* const weights = args.weights.first[gate] + row * args.row_stride[gate];
        auto* const logits_gradient =
            args.logits_gradient.first[gate] + row * args.row_stride[gate];
        auto const* const gradient =
            output_gradient.data() + (gate * args.batch + row) * args.width;
        float weighted = 0.0F;
        for (int k = 0; k < choices; ++k) {
          int const expert = table.expert[begin + k];
          auto const place = row * args.width;
          float const by_weight = dot(gradient, experts[expert].data() + place, args.width);
          logits_gradient[k] = by_weight;
          weighted += weights[k] * by_weight;
          if (args.expert_gradients[expert] != nullptr) {
            add_scaled(weights[k], gradient, expert_gradients[expert].data() + place, args.width);
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
