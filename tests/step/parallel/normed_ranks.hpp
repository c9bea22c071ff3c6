// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/kept_ranks.hpp"
#include "step/parallel/sharded_bags.hpp"

#include <msstream/msstream.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {

constexpr int kNormSteps = 3;

struct HowNormed {
  std::int64_t rows = 17;
  std::int64_t width = 5;
  bool is_dice = false;
  bool is_masked = false;
  bool has_one_weight = false;
  float offset = 0;  ///< of all elements
  float momentum = 0.1F;
  int groups = 0;
  bool is_captured = false;
  bool has_rows_on_all = false;  ///< whether no rank is without rows
  std::uint64_t seed = 1;

  [[nodiscard]] std::int64_t weights() const { return has_one_weight ? 1 : width; }
};

[[nodiscard]] inline HowNormed random_norm(std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  HowNormed how;
  how.rows = 3 + static_cast<std::int64_t>(engine() % 300);
  how.width = 1 + static_cast<std::int64_t>(engine() % 40);
  how.seed = seed;
  return how;
}

/// The inputs of one step, and the gradient of the output.
struct NormBatch {
  std::vector<float> input;
  std::vector<float> gradient;
  std::vector<float> mask;
};
[[nodiscard]] inline NormBatch norm_batch(HowNormed const& how, int step) {
  auto const count = static_cast<std::size_t>(how.rows * how.width);
  auto const seed = how.seed * 100 + static_cast<std::uint64_t>(step);
  NormBatch batch{random_elements<float>(seed, count),
                  random_elements<float>(seed + 50, count),
                  std::vector<float>(static_cast<std::size_t>(how.rows), 1.0F)};
  for (std::size_t i = 0; i < count; ++i) {
    batch.input[i] += how.offset * static_cast<float>(1 + i % static_cast<std::size_t>(how.width));
  }
  // The first third of the rows, to which those of rank 0 belong, does not count.
  auto const rows = batch.mask.size();
  for (std::size_t row = 0; how.is_masked && row < rows; ++row) {
    batch.mask[row] = row % 3 == 0 || row < rows / 3 ? 0.0F : 1.0F;
  }
  return batch;
}
[[nodiscard]] inline std::vector<float> norm_weights(HowNormed const& how) {
  return random_elements<float>(how.seed + 7, static_cast<std::size_t>(how.weights()));
}
[[nodiscard]] inline std::vector<float> norm_biases(HowNormed const& how) {
  return random_elements<float>(how.seed + 8, static_cast<std::size_t>(how.width));
}

/// The results and gradients of one step, of the rows of all ranks together.
template <class Number>
struct Normed {
  std::vector<Number> output;
  std::vector<Number> input_gradient;
  std::vector<Number> weight_gradient;
  std::vector<Number> bias_gradient;
};
/// The results of all steps, and the running statistics at the end.
template <class Number>
struct NormedSteps {
  std::vector<Normed<Number>> steps;
  std::vector<Number> mean;
  std::vector<Number> variance;
};

/// A batch in float64, whose columns are normalised by their rows that count.
class NormReference {
 public:
  NormReference(HowNormed const& how, NormBatch const& batch)
      : how_(how),
        mask_(batch.mask),
        input_(batch.input.begin(), batch.input.end()),
        gradient_(batch.gradient.begin(), batch.gradient.end()) {
    auto const weights = norm_weights(how);
    auto const biases = norm_biases(how);
    weight_.assign(weights.begin(), weights.end());
    bias_.assign(biases.begin(), biases.end());
  }

  [[nodiscard]] std::vector<double> output() const {
    std::vector<double> output(input_.size());
    for (std::int64_t column = 0; column < how_.width; ++column) {
      auto const [mean, variance] = moments(column);
      auto const weight = weight_[static_cast<std::size_t>(how_.has_one_weight ? 0 : column)];
      for (auto at = static_cast<std::size_t>(column); at < input_.size();
           at += static_cast<std::size_t>(how_.width)) {
        double const n = (input_[at] - mean) / std::sqrt(variance + 1e-5);
        double const gate = 1 / (1 + std::exp(-n));
        output[at] = how_.is_dice ? input_[at] * (weight + (1 - weight) * gate)
                                  : n * weight + bias_[static_cast<std::size_t>(column)];
      }
    }
    return output;
  }
  /// Returns the mean of a column, and its variance divided by the rows.
  [[nodiscard]] std::pair<double, double> moments(std::int64_t column) const {
    double sum = 0;
    double squares = 0;
    for_each_counted(column, [&](double x) { sum += x; });
    double const mean = sum / counted();
    for_each_counted(column, [&](double x) { squares += (x - mean) * (x - mean); });
    return {mean, squares / counted()};
  }
  [[nodiscard]] double counted() const {
    return static_cast<double>(std::ranges::count(mask_, 1.0F));
  }

  /// Returns the derivatives of the sum of output * gradient, by differences.
  [[nodiscard]] Normed<double> all() {
    Normed<double> result{output(), {}, {}, {}};
    result.input_gradient = derivatives(input_);
    result.weight_gradient = derivatives(weight_);
    result.bias_gradient = derivatives(bias_);
    return result;
  }

 private:
  template <class Visit>
  void for_each_counted(std::int64_t column, Visit const& visit) const {
    for (std::int64_t row = 0; row < how_.rows; ++row) {
      if (mask_[static_cast<std::size_t>(row)] != 0.0F) {
        visit(input_[static_cast<std::size_t>(row * how_.width + column)]);
      }
    }
  }
  [[nodiscard]] double loss() const {
    auto const y = output();
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      sum += y[i] * gradient_[i];
    }
    return sum;
  }
  [[nodiscard]] std::vector<double> derivatives(std::vector<double>& variables) {
    constexpr double kStep = 1e-4;
    std::vector<double> found;
    for (auto& variable : variables) {
      auto const middle = variable;
      variable = middle + kStep;
      auto const above = loss();
      variable = middle - kStep;
      auto const below = loss();
      variable = middle;
      found.push_back((above - below) / (2 * kStep));
    }
    return found;
  }

  HowNormed how_;
  std::vector<float> mask_;
  std::vector<double> input_;
  std::vector<double> gradient_;
  std::vector<double> weight_;
  std::vector<double> bias_;
};

[[nodiscard]] inline NormedSteps<double> norm_reference(HowNormed const& how) {
  NormedSteps<double> all{{},
                          std::vector<double>(static_cast<std::size_t>(how.width), 0.0),
                          std::vector<double>(static_cast<std::size_t>(how.width), 1.0)};
  for (int step = 0; step < kNormSteps; ++step) {
    NormReference reference(how, norm_batch(how, step));
    all.steps.push_back(reference.all());
    for (std::int64_t column = 0; column < how.width; ++column) {
      auto const [mean, variance] = reference.moments(column);
      auto const rows = reference.counted();
      auto const c = static_cast<std::size_t>(column);
      auto const share = static_cast<double>(how.momentum);
      all.mean[c] += share * (mean - all.mean[c]);
      all.variance[c] += share * (variance * rows / (rows - 1) - all.variance[c]);
    }
  }
  return all;
}

/// Normalises the rows of one rank, and computes the gradients of the sum of output * gradient.
template <Runtime R>
class NormedRank {
 public:
  NormedRank(Rank<R> const& rank, HowNormed const& how, bool is_exchanged)
      : rank_(rank),
        how_(how),
        is_exchanged_(is_exchanged),
        part_((how.has_rows_on_all
                   ? batch_parts(how.rows, rank.size())
                   : uneven_parts(how.rows, rank.size()))[static_cast<std::size_t>(rank.rank())]),
        input_(rank.device, {part_.rows(), how.width}),
        gradient_(rank.device, {part_.rows(), how.width}),
        mask_(rank.device, {part_.rows()}),
        weight_(rank.tensor(norm_weights(how))),
        bias_(rank.tensor(norm_biases(how))),
        running_{zeros<float>(rank.device, {how.width}),
                 rank.tensor(std::vector<float>(static_cast<std::size_t>(how.width), 1.0F))},
        tape_(rank.device) {
    if (how.groups > 0) {
      pool_.emplace(rank.device, StreamPoolOptions{.groups = how.groups, .log = nullptr});
    }
  }

  [[nodiscard]] NormedSteps<float> run() {
    NormedSteps<float> all;
    std::optional<CapturedStep<R>> captured;
    put(0);
    if (how_.is_captured) {
      captured.emplace(rank_.device, [&] { step(); });
    }
    for (int i = 0; i < kNormSteps; ++i) {
      put(i);
      if (captured) {
        captured->replay();
      } else {
        step();
      }
      all.steps.push_back({to_host(*output_),
                           to_host(*input_gradient_),
                           to_host(*weight_gradient_),
                           how_.is_dice ? std::vector<float>() : to_host(*bias_gradient_)});
    }
    all.mean = to_host(running_.mean);
    all.variance = to_host(running_.variance);
    return all;
  }

 private:
  void put(int step) {
    auto const batch = norm_batch(how_, step);
    auto const put_rows = [&](Tensor<float, R> const& to, std::vector<float> const& all) {
      if (part_.rows() == 0) {
        return;
      }
      auto const width = static_cast<std::int64_t>(all.size()) / how_.rows;
      std::vector<float> const own(all.begin() + part_.begin * width,
                                   all.begin() + part_.end * width);
      copy(to, to_device(rank_.device, own, to.shape()));
    };
    put_rows(input_, batch.input);
    put_rows(gradient_, batch.gradient);
    put_rows(mask_, batch.mask);
  }
  void step() {
    std::optional<StreamScope<R>> scope;
    if (pool_) {
      scope.emplace((*pool_)[how_.groups - 1], StreamScopeOptions{.include_grad = true});
    }
    ops::BatchNormOptions<R> options{.momentum = how_.momentum};
    if (how_.is_masked) {
      options.mask = mask_;
    }
    tape_.without_gradient(gradient_);
    if (is_exchanged_) {
      output_ = how_.is_dice
                    ? ops::dice(tape_, input_, weight_, running_, options, rank_.communicator)
                    : ops::batch_norm(
                          tape_, input_, weight_, bias_, running_, options, rank_.communicator);
    } else {
      output_ = how_.is_dice ? ops::dice(tape_, input_, weight_, running_, options)
                             : ops::batch_norm(tape_, input_, weight_, bias_, running_, options);
    }
    auto const products = ops::multiply(tape_, *output_, gradient_);
    tape_.backward(ops::sum(tape_, ops::sum(tape_, products, 0), 0));
    input_gradient_ = tape_.gradient(input_);
    weight_gradient_ = tape_.gradient(weight_);
    if (!how_.is_dice) {
      bias_gradient_ = tape_.gradient(bias_);
    }
    tape_.clear();
  }

  Rank<R> rank_;
  HowNormed how_;
  bool is_exchanged_;
  BatchPart part_;
  Tensor<float, R> input_;
  Tensor<float, R> gradient_;
  Tensor<float, R> mask_;
  Tensor<float, R> weight_;
  Tensor<float, R> bias_;
  ops::RunningStatistics<R> running_;
  GradientTape<R> tape_;
  std::optional<StreamPool<R>> pool_;
  std::optional<Tensor<float, R>> output_;
  std::optional<Tensor<float, R>> input_gradient_;
  std::optional<Tensor<float, R>> weight_gradient_;
  std::optional<Tensor<float, R>> bias_gradient_;
};

/// Returns the rows of all ranks, and the sums of the gradients of weight and bias.
template <Runtime R>
[[nodiscard]] NormedSteps<float> normed_on_ranks(int ranks,
                                                 HowNormed const& how,
                                                 bool is_exchanged = true) {
  std::mutex mutex;
  std::vector<NormedSteps<float>> of_ranks(static_cast<std::size_t>(ranks));
  on_kept_ranks<R>(ranks, [&](Rank<R> const& rank) {
    auto found = NormedRank<R>(rank, how, is_exchanged).run();
    std::lock_guard const guard(mutex);
    of_ranks[static_cast<std::size_t>(rank.rank())] = std::move(found);
  });
  of_ranks.resize(static_cast<std::size_t>(std::min(ranks, most_ranks<R>())));
  auto together = of_ranks[0];
  for (std::size_t rank = 1; rank < of_ranks.size(); ++rank) {
    auto const& other = of_ranks[rank];
    if (is_exchanged) {
      EXPECT_EQ(bits_of(other.mean), bits_of(together.mean)) << "rank " << rank;
      EXPECT_EQ(bits_of(other.variance), bits_of(together.variance)) << "rank " << rank;
    }
    for (std::size_t step = 0; step < together.steps.size(); ++step) {
      auto& to = together.steps[step];
      auto const& from = other.steps[step];
      to.output.insert(to.output.end(), from.output.begin(), from.output.end());
      to.input_gradient.insert(
          to.input_gradient.end(), from.input_gradient.begin(), from.input_gradient.end());
      std::ranges::transform(
          to.weight_gradient, from.weight_gradient, to.weight_gradient.begin(), std::plus<>());
      std::ranges::transform(
          to.bias_gradient, from.bias_gradient, to.bias_gradient.begin(), std::plus<>());
    }
  }
  return together;
}

/// Returns the largest difference, divided by the largest number.
[[nodiscard]] inline double off_by(std::vector<float> const& found,
                                   std::vector<double> const& expected) {
  EXPECT_EQ(found.size(), expected.size());
  double largest = 1;
  double off = 0;
  for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    off = std::max(off, std::abs(static_cast<double>(found[i]) - expected[i]));
    EXPECT_TRUE(std::isfinite(found[i]));
  }
  return off / largest;
}
[[nodiscard]] inline double off_by(NormedSteps<float> const& found,
                                   NormedSteps<double> const& expected) {
  auto off = std::max(off_by(found.mean, expected.mean), off_by(found.variance, expected.variance));
  for (std::size_t step = 0; step < expected.steps.size(); ++step) {
    auto const& of = found.steps[step];
    auto const& by = expected.steps[step];
    off = std::max({off,
                    off_by(of.output, by.output),
                    off_by(of.input_gradient, by.input_gradient),
                    off_by(of.weight_gradient, by.weight_gradient)});
    if (!of.bias_gradient.empty()) {
      off = std::max(off, off_by(of.bias_gradient, by.bias_gradient));
    }
  }
  return off;
}
inline void expect_same_bits(NormedSteps<float> const& found, NormedSteps<float> const& expected) {
  EXPECT_EQ(bits_of(found.mean), bits_of(expected.mean));
  EXPECT_EQ(bits_of(found.variance), bits_of(expected.variance));
  for (std::size_t step = 0; step < expected.steps.size(); ++step) {
    auto const& of = found.steps[step];
    auto const& by = expected.steps[step];
    EXPECT_EQ(bits_of(of.output), bits_of(by.output));
    EXPECT_EQ(bits_of(of.input_gradient), bits_of(by.input_gradient));
    EXPECT_EQ(bits_of(of.weight_gradient), bits_of(by.weight_gradient));
    EXPECT_EQ(bits_of(of.bias_gradient), bits_of(by.bias_gradient));
  }
}

}  // namespace msstream::testing
