// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/msstream.hpp>

#include <fmt/core.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace train_branches {

namespace ms = msstream;

struct BranchShape {
  std::int64_t width = 512;  ///< all matrices are [width, width]
  int layers = 20;
  std::int64_t target = 20;  ///< the class to learn
  std::uint64_t seed = 1;
};

/// The branch-training example of NVIDIA's multi-stream TensorFlow: four branches of elementwise
/// layers on square matrices, which are independent of each other until they are concatenated.
///
///     branches 0, 1: m = x W + b; then m = transpose(m ∓ I) ∘ W - b ± I, layer by layer;
///                    m transpose(m)
///     branch 2:      m = transpose(x) W + b; then m = sqrt|m² ∘ W - b|; row sums
///     branch 3:      like branch 2, but m = (sqrt|m| ∘ W - b)²
///     all:           concat, dense, column means, cross-entropy with one class
template <ms::Runtime R>
class BranchModel {
 public:
  using Matrix = ms::Tensor<float, R>;
  /// The inputs of a step: one matrix per branch.
  using Batch = std::vector<Matrix>;

  static constexpr int kBranches = 4;

  BranchModel(ms::Device<R> const& device, BranchShape const& shape)
      : shape_(shape),
        target_(ms::to_device<std::int64_t, R>(device, {shape.target}, {1})),
        parameters_(device, {.seed = shape.seed}),
        last_{parameters_.dense("joined/weight",
                                {2 * shape.width + 2, shape.width},
                                ms::init::normal(0.0F, 0.25F / width())),
              bias("joined")} {
    for (int branch = 0; branch < kBranches; ++branch) {
      auto const name = fmt::format("branch{}", branch);
      branches_.push_back({factors(device, name + "/weight"), bias(name)});
    }
  }

  /// Returns a batch of normally distributed values, scaled such that products with the weights
  /// have size 1.
  [[nodiscard]] Batch random_batch(ms::Device<R> const& device) const {
    Batch batch;
    for (int branch = 0; branch < kBranches; ++branch) {
      batch.push_back(ms::ops::random_normal(device,
                                             {shape_.width, shape_.width},
                                             {shape_.seed, fmt::format("input{}", branch)},
                                             0.0F,
                                             1.0F / std::sqrt(width())));
    }
    return batch;
  }

  [[nodiscard]] Matrix loss(ms::GradientTape<R>& tape,
                            ms::StreamPool<R>& pool,
                            Batch const& batch) const {
    std::vector<Matrix> columns;
    for (int branch = 0; branch < kBranches; ++branch) {
      auto const i = static_cast<std::size_t>(branch);
      ms::StreamScope<R> const scope(pool[branch % pool.groups()], {.include_grad = true});
      ms::NameScope const named(fmt::format("branch{}", branch));
      tape.without_gradient(batch[i]);
      columns.push_back(branch < 2
                            ? transposing(tape, branches_[i], batch[i], branch == 0 ? 1.0F : -1.0F)
                            : squaring(tape, branches_[i], batch[i], branch == 2));
    }
    ms::StreamScope<R> const scope(pool[0], {.include_grad = true});
    ms::NameScope const named("joined");
    auto const logits =
        ms::ops::dense(tape, ms::ops::concat(tape, columns), last_.weight, last_.bias);
    auto const means = ms::ops::mean(tape, logits, 0, {.keep_dimension = true});
    return ms::ops::mean_softmax_cross_entropy(tape, means, target_);
  }

  [[nodiscard]] ms::Parameters<R> const& parameters() const noexcept { return parameters_; }

 private:
  struct Layer {
    Matrix weight;
    Matrix bias;
  };

  Matrix transposing(ms::GradientTape<R>& tape,
                     Layer const& with,
                     Matrix const& input,
                     float sign) const {
    auto m = ms::ops::dense(tape, input, with.weight, with.bias);
    for (int layer = 0; layer < shape_.layers; ++layer) {
      ms::NameScope const named(fmt::format("layer{}", layer));
      m = ms::ops::add_identity(tape, m, -sign);
      m = ms::ops::multiply(tape, ms::ops::transpose(tape, m), with.weight);
      m = ms::ops::subtract(tape, m, with.bias);
      m = ms::ops::add_identity(tape, m, sign);
    }
    return ms::ops::matmul(tape, m, m, {.transpose_right = true});
  }

  Matrix squaring(ms::GradientTape<R>& tape,
                  Layer const& with,
                  Matrix const& input,
                  bool square_first) const {
    auto m = ms::ops::add(
        tape, ms::ops::matmul(tape, input, with.weight, {.transpose_left = true}), with.bias);
    auto const root = [&](Matrix const& of) { return ms::ops::sqrt_abs(tape, of, kEpsilon); };
    auto const square = [&](Matrix const& of) { return ms::ops::square(tape, of); };
    for (int layer = 0; layer < shape_.layers; ++layer) {
      ms::NameScope const named(fmt::format("layer{}", layer));
      m = square_first ? square(m) : root(m);
      m = ms::ops::subtract(tape, ms::ops::multiply(tape, m, with.weight), with.bias);
      m = square_first ? root(m) : square(m);
    }
    return ms::ops::sum(tape, m, 1, {.keep_dimension = true});
  }

  Matrix bias(std::string const& name) {
    return parameters_.dense(name + "/bias", {shape_.width}, ms::init::normal(0.0F, 0.1F));
  }
  /// Makes a parameter whose elements are of either sign and of a size close to 1: every layer of a
  /// branch multiplies by them, so products of other factors would grow or vanish.
  Matrix factors(ms::Device<R> const& device, std::string const& name) {
    auto const weight =
        parameters_.dense(name, {shape_.width, shape_.width}, ms::init::uniform(-1.0F, 1.0F));
    auto values = ms::to_host(weight);
    for (auto& value : values) {
      value = std::copysign(0.98F + 0.04F * std::abs(value), value);
    }
    ms::copy(weight, ms::to_device(device, values, weight.shape()));
    return weight;
  }
  [[nodiscard]] float width() const noexcept { return static_cast<float>(shape_.width); }

  /// The number added under the square root, whose slope would be infinite at 0.
  static constexpr float kEpsilon = 1e-6F;

  BranchShape shape_;
  ms::Tensor<std::int64_t, R> target_;
  ms::Parameters<R> parameters_;
  Layer last_;
  std::vector<Layer> branches_;
};

}  // namespace train_branches
