// SPDX-License-Identifier: Apache-2.0
// Compares clipping by the global norm of gradients, and the sums of squares of several ranks, with
// their definitions.
#include "kernels/kernel_fixture.hpp"
#include "kernels/optimizer/optimizer_reference.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace msstream::ops::kernels::testing {
namespace {

constexpr float kUnclipped = std::numeric_limits<float>::infinity();

template <class Stream>
using GradientNormTest = KernelTest<Stream>;
TYPED_TEST_SUITE(GradientNormTest, StreamKinds, StreamKindName);

TYPED_TEST(GradientNormTest, the_global_norm_scales_all_gradients) {
  // Dense gradients of sizes around a chunk, more of them than one launch takes, and rows of which
  // some do not exist.
  for (int const tensors : {0, 1, 3, 64, 65, 130}) {
    for (float const clip_value : {kUnclipped, 0.3F}) {
      for (double const clip_norm : {0.25, 1e6}) {
        SCOPED_TRACE(fmt::format("{} tensors, clip {} and {}", tensors, clip_value, clip_norm));
        std::vector<Buffer<float>> gradients;
        std::vector<Buffer<std::int64_t>> counts;
        std::vector<NormPart> parts;
        long double squares = 0.0L;
        constexpr float kFactor = 0.5F;
        for (int k = 0; k < tensors; ++k) {
          static constexpr std::array<std::int64_t, 8> kSizes{
              0, 1, 33, 127, 4095, 4096, 4097, 9001};
          auto const count = kSizes[static_cast<std::size_t>(k) % kSizes.size()];
          auto values = this->random.reals(count + k % 2);
          std::int64_t const width = k % 3 == 2 ? 3 : 1;
          std::int64_t const rows = count / width / 2;
          auto const existing = width == 3 ? rows * width : count;
          for (std::int64_t i = 0; i < count; ++i) {
            auto& value = values[static_cast<std::size_t>(i + k % 2)];
            if (i < existing) {
              double const clipped = std::clamp(value * kFactor, -clip_value, clip_value);
              squares += static_cast<long double>(clipped) * clipped;
            } else {
              value = std::nanf("");
            }
          }
          gradients.push_back(this->upload(values));
          counts.push_back(this->scalar(rows));
          parts.push_back({gradients.back().data() + k % 2,
                           count,
                           width == 3 ? counts.back().data() : nullptr,
                           width,
                           clip_value});
        }
        auto const rule = rule_of(OptimizerKind::adam);
        auto const state = this->upload(std::vector{StepState{}});
        auto const memory = this->workspace(norm_workspace_bytes(parts));
        StepAdvance advance{rule};
        advance.gradient_factor = kFactor;
        advance.clip_norm = clip_norm;
        this->replay([&](TypeParam stream) {
          advance_step_by_norm(stream, advance, parts, memory.data(), state.data());
        });
        auto const now = this->read(state).front();
        auto const norm = static_cast<double>(std::sqrt(squares));
        EXPECT_EQ(now.step, 1);
        EXPECT_NEAR(now.norm, norm, 1e-13 * norm);
        EXPECT_FLOAT_EQ(now.norm_scale,
                        static_cast<float>(norm <= clip_norm ? 1.0 : clip_norm / norm));
        EXPECT_EQ(now.gradient_factor, kFactor);
        EXPECT_FLOAT_EQ(now.correction1, 1.0F / (1.0F - 0.9F));
      }
    }
  }
}

TYPED_TEST(GradientNormTest, a_norm_that_is_not_finite_reaches_the_gradients) {
  for (float const bad : {kUnclipped, std::nanf("")}) {
    auto const gradient = this->upload(std::vector{1.0F, bad, 2.0F});
    auto const state = this->upload(std::vector{StepState{}});
    std::vector const parts{NormPart{gradient.data(), 3, nullptr, 1, kUnclipped}};
    auto const memory = this->workspace(norm_workspace_bytes(parts));
    StepAdvance advance{rule_of(OptimizerKind::sgd)};
    advance.clip_norm = 1.0;
    advance_step_by_norm(this->stream(), advance, parts, memory.data(), state.data());
    auto const scale = this->read(state).front().norm_scale;
    EXPECT_TRUE(std::isnan(bad) ? std::isnan(scale) : scale == 0.0F) << scale;
  }
}

TYPED_TEST(GradientNormTest, squares_of_shared_gradients_are_summed_by_themselves) {
  std::vector<std::int64_t> const counts{1, 5000, 70, 4096, 9001};
  std::vector<Buffer<float>> gradients;
  std::vector<NormPart> parts;
  std::vector<double> squares;
  for (auto const count : counts) {
    auto const values = this->random.reals(count);
    squares.push_back(0.0);
    for (auto const value : values) {
      auto const g = static_cast<double>(value * 0.5F);
      squares.back() += g * g;
    }
    gradients.push_back(this->upload(values));
    parts.push_back({gradients.back().data(), count, nullptr, 1, kUnclipped});
  }
  StepAdvance advance{rule_of(OptimizerKind::sgd)};
  advance.gradient_factor = 0.5F;
  auto const memory = this->workspace(norm_workspace_bytes(parts));
  for (std::size_t shared = 0; shared <= parts.size(); ++shared) {
    auto const middle = squares.begin() + static_cast<std::ptrdiff_t>(shared);
    auto const found = this->upload(std::vector{NormSquares{-1.0, -1.0}});
    this->replay([&](TypeParam stream) {
      norm_squares(stream, advance, parts, shared, memory.data(), found.data());
    });
    auto const sums = this->read(found).front();
    auto const of_shared = std::accumulate(squares.begin(), middle, 0.0);
    auto const own = std::accumulate(middle, squares.end(), 0.0);
    EXPECT_NEAR(sums.shared, of_shared, 1e-13 * of_shared);
    EXPECT_NEAR(sums.own, own, 1e-13 * own);
  }
}

TYPED_TEST(GradientNormTest, squares_of_ranks_give_one_norm) {
  auto const infinity = std::numeric_limits<double>::infinity();
  std::vector<NormSquares> ranks{{4.0, 1.0}, {9.0, 2.0}, {16.0, 9.0}};
  auto const advanced = [&](bool skips) {
    auto const squares = this->upload(ranks);
    auto const state = this->upload(std::vector{StepState{}});
    StepAdvance advance{rule_of(OptimizerKind::adam)};
    advance.clip_norm = 2.0;
    advance.skip_non_finite = skips;
    this->replay([&](TypeParam stream) {
      advance_step_by_squares(stream, advance, squares.data(), std::ssize(ranks), state.data());
    });
    return this->read(state).front();
  };
  auto const state = advanced(true);
  EXPECT_EQ(state.norm, 4.0);
  EXPECT_EQ(state.norm_scale, 0.5F);
  EXPECT_EQ(state.step, 1);
  EXPECT_FLOAT_EQ(state.correction1, 1.0F / (1.0F - 0.9F));
  for (auto const& bad : {NormSquares{infinity, 2.0}, NormSquares{9.0, std::nan("")}}) {
    ranks[1] = bad;
    EXPECT_FALSE(std::isfinite(advanced(false).norm));
    auto const skipped = advanced(true);
    EXPECT_EQ(skipped.step, 0);
    EXPECT_EQ(skipped.skipped, 1);
    EXPECT_EQ(skipped.gradient_factor, 0.0F);
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
