// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/counter_random.hpp"

#include <msstream/msstream.hpp>

#include <fmt/core.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
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
        last_{normal(device, {2 * shape.width + 2, shape.width}, 0.25 / width()),
              normal(device, {shape.width}, 0.1)} {
    for (int branch = 0; branch < kBranches; ++branch) {
      branches_.push_back(
          {factors(device, {shape.width, shape.width}), normal(device, {shape.width}, 0.1)});
    }
  }

  /// Returns a batch of normally distributed values, scaled such that products with the weights
  /// have size 1.
  [[nodiscard]] Batch random_batch(ms::Device<R> const& device) {
    Batch batch;
    for (int branch = 0; branch < kBranches; ++branch) {
      batch.push_back(normal(device, {shape_.width, shape_.width}, 1 / std::sqrt(width())));
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

  /// Calls `dense(name, tensor)` for each parameter of the model, which has no embedding tables.
  template <class Dense, class Table>
  void visit_parameters(Dense&& dense, Table&&) const {
    for (std::size_t i = 0; i < branches_.size(); ++i) {
      dense(fmt::format("branch{}/weight", i), branches_[i].weight);
      dense(fmt::format("branch{}/bias", i), branches_[i].bias);
    }
    dense("joined/weight", last_.weight);
    dense("joined/bias", last_.bias);
  }

 private:
  struct Parameters {
    Matrix weight;
    Matrix bias;
  };

  Matrix transposing(ms::GradientTape<R>& tape,
                     Parameters const& with,
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
                  Parameters const& with,
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

  /// Returns a tensor on the device whose element i, in row-major order, is `draw(i)`.
  template <class Draw>
  Matrix filled(ms::Device<R> const& device, ms::Shape const& shape, Draw const& draw) {
    std::vector<float> values(static_cast<std::size_t>(shape.count()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(draw(i));
    }
    return ms::to_device<float, R>(device, values, shape);
  }
  Matrix normal(ms::Device<R> const& device, ms::Shape const& shape, double deviation) {
    return filled(device, shape, [&, stream = drawn_++](std::uint64_t i) {
      using ms::datasets::random_bits;
      return deviation * ms::datasets::normal_of(random_bits(shape_.seed, stream, 2 * i),
                                                 random_bits(shape_.seed, stream, 2 * i + 1));
    });
  }
  /// Returns random factors of either sign and of a size close to 1: every layer of a branch
  /// multiplies by them, so products of other factors would grow or vanish.
  Matrix factors(ms::Device<R> const& device, ms::Shape const& shape) {
    return filled(device, shape, [&, stream = drawn_++](std::uint64_t i) {
      double const unit =
          ms::datasets::uniform_of(ms::datasets::random_bits(shape_.seed, stream, i));
      return unit < 0.5 ? 0.98 + 0.08 * unit : -0.94 - 0.08 * unit;
    });
  }
  [[nodiscard]] double width() const noexcept { return static_cast<double>(shape_.width); }

  /// The number added under the square root, whose slope would be infinite at 0.
  static constexpr float kEpsilon = 1e-6F;

  BranchShape shape_;
  std::uint64_t drawn_ = 0;
  ms::Tensor<std::int64_t, R> target_;
  Parameters last_;
  std::vector<Parameters> branches_;
};

}  // namespace train_branches
