// SPDX-License-Identifier: Apache-2.0
#include "step/capture/captured_fixture.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/ops/ids.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/stream/stream_pool.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <random>

namespace msstream::testing {
namespace {

using ops::Activation;
using ops::Bags;
using ops::Pooling;

/// A configuration of groups, waits and launch threads, which must not change the results of a
/// step.
struct Way {
  int groups;
  bool merge_streams;
  bool reduce_waits;
  LaunchThreads launch_threads;
};

[[nodiscard]] std::string to_string(Way const& way) {
  return fmt::format("{} groups, {}{}launch threads {}",
                     way.groups,
                     way.merge_streams ? "merged, " : "",
                     way.reduce_waits ? "" : "every wait, ",
                     static_cast<int>(way.launch_threads));
}

std::vector<Way> all_ways() {
  std::vector<Way> ways;
  for (int const groups : {1, 2, 4, 8}) {
    for (bool const merge : {false, true}) {
      for (bool const reduce : {true, false}) {
        for (auto const launch :
             {LaunchThreads::none, LaunchThreads::shared, LaunchThreads::per_group}) {
          ways.push_back({groups, merge, reduce, launch});
        }
      }
    }
  }
  return ways;
}

/// Two training steps of a random model: branches of random operations on random groups, which use
/// each other's results and are joined in a loss. The seed determines everything but the number of
/// groups.
template <Runtime R>
class RandomStep {
 public:
  RandomStep(std::uint64_t seed, Way const& way)
      : random_(seed),
        device_(DeviceOptions<R>{.reduce_waits = way.reduce_waits}),
        pool_(device_,
              {.groups = way.groups,
               .merge_streams = way.merge_streams,
               .launch_threads = way.launch_threads}),
        tape_(device_),
        optimizer_(device_, {.kind = ops::OptimizerKind::adam, .learning_rate = 0.1F}) {
    for (int i = 0; i < 3; ++i) {
      tables_.push_back(upload(random_floats(kTableRows * kWidth), {kTableRows, kWidth}));
      optimizer_.add_table(fmt::format("table{}", i), tables_.back());
    }
    for (int i = 0; i < 2; ++i) {
      weights_.push_back(upload(random_floats(kWidth * kWidth), {kWidth, kWidth}));
      biases_.push_back(upload(random_floats(kWidth), {kWidth}));
    }
  }

  /// Trains, and returns the losses, the gradients of weights and biases (or an unused parameter
  /// itself), and the final tables.
  [[nodiscard]] Floats run() {
    Floats out;
    for (int step = 0; step < 2; ++step) {
      auto const loss = forward();
      tape_.backward(loss);
      optimizer_.step(tape_);
      for (auto const& parameters : {weights_, biases_}) {
        for (auto const& parameter : parameters) {
          append(out, tape_has_used(parameter) ? tape_.gradient(parameter) : parameter);
        }
      }
      used_.clear();
      tape_.clear();
      append(out, loss);
    }
    for (auto const& table : tables_) {
      append(out, table);
    }
    return out;
  }

 private:
  static constexpr std::int64_t kTableRows = 50;
  static constexpr std::int64_t kWidth = 8;
  static constexpr std::int64_t kBatch = 24;
  static constexpr int kOperations = 25;

  [[nodiscard]] std::size_t below(std::size_t end) { return random_() % end; }
  [[nodiscard]] Floats random_floats(std::int64_t count) {
    Floats values(static_cast<std::size_t>(count));
    std::ranges::generate(
        values, [this] { return static_cast<float>(random_() % 20001) / 10000.0F - 1.0F; });
    return values;
  }
  template <Element T>
  [[nodiscard]] Tensor<T, R> upload(std::vector<T> const& values, Shape const& shape) {
    return to_device<T, R>(device_, values, shape);
  }
  static void append(Floats& out, Tensor<float, R> const& tensor) {
    auto const values = to_host(tensor);
    out.insert(out.end(), values.begin(), values.end());
  }
  [[nodiscard]] bool tape_has_used(Tensor<float, R> const& parameter) const {
    return std::ranges::find(used_, parameter.data()) != used_.end();
  }

  [[nodiscard]] Tensor<float, R> forward() {
    std::vector<Tensor<float, R>> made;  // all of shape [kBatch, kWidth]
    made.push_back(lookup());
    for (int i = 0; i < kOperations; ++i) {
      StreamScope const branch(pool_[static_cast<int>(below(64)) % pool_.groups()],
                               {.include_grad = below(4) != 0});
      made.push_back(operation(made));
    }
    Integers offsets;
    for (std::int64_t i = 0; i <= kBatch; ++i) {
      offsets.push_back(i);
    }
    auto const packed = ops::concat(tape_, made);
    auto const pooled = ops::segment_reduce(
        tape_, packed, upload(offsets, {kBatch + 1}), ops::SegmentReduction::mean);
    Floats labels(static_cast<std::size_t>(pooled.count()), 0.25F);
    return ops::mean_bce_with_logits(tape_, pooled, upload(labels, pooled.shape()));
  }

  [[nodiscard]] Tensor<float, R> operation(std::vector<Tensor<float, R>> const& made) {
    auto const& input = made[made.size() - 1 - below(std::min<std::size_t>(made.size(), 4))];
    switch (below(6)) {
      case 0:
        return lookup();
      case 1:
        return ops::scale(tape_, input, 0.75F);
      case 2:
        return ops::sigmoid(tape_, input);
      case 3: {
        auto const layer = below(weights_.size());
        used_.insert(used_.end(), {weights_[layer].data(), biases_[layer].data()});
        return ops::dense(tape_,
                          input,
                          weights_[layer],
                          biases_[layer],
                          below(2) == 0 ? Activation::relu : Activation::none);
      }
      case 4: {
        // Releases tensors while work on them is in flight, so that later tensors reuse their
        // memory.
        auto const discarded = ops::sigmoid(ops::scale(input, 3.0F));
        return ops::add(tape_, std::vector{input, made[below(made.size())], input});
      }
      default:
        return ops::add(tape_, std::vector{input, made[below(made.size())]});
    }
  }

  [[nodiscard]] Tensor<float, R> lookup() {
    constexpr std::int64_t kHotness = 3;
    Integers keys;
    for (std::int64_t i = 0; i < kBatch * kHotness; ++i) {
      keys.push_back(static_cast<std::int64_t>(below(1000)));
    }
    Bags<R> const bags =
        ops::hash_to_bucket(upload(keys, {kBatch, kHotness}), kTableRows, below(5));
    return ops::embedding_lookup(tape_,
                                 tables_[below(tables_.size())],
                                 bags,
                                 {.pooling = below(2) == 0 ? Pooling::sum : Pooling::mean});
  }

  std::mt19937_64 random_;
  Device<R> device_;
  StreamPool<R> pool_;
  GradientTape<R> tape_;
  Optimizer<R> optimizer_;
  std::vector<Tensor<float, R>> tables_;
  std::vector<Tensor<float, R>> weights_;
  std::vector<Tensor<float, R>> biases_;
  std::vector<float const*> used_;
};

template <class R>
class RandomStepTest : public OpsTest<R> {};
TYPED_TEST_SUITE(RandomStepTest, Runtimes, RuntimeNames);

TYPED_TEST(RandomStepTest, gives_the_same_bits_whichever_way_it_is_run) {
  for (int program = 0; program < 4; ++program) {
    auto const seed = this->random.seed() + static_cast<std::uint64_t>(program);
    auto const expected = RandomStep<TypeParam>(seed, all_ways().front()).run();
    ASSERT_TRUE(std::ranges::all_of(expected, [](float x) { return std::isfinite(x); }));
    for (auto const& way : all_ways()) {
      EXPECT_TRUE(same_bits(RandomStep<TypeParam>(seed, way).run(), expected))
          << to_string(way) << ", program " << seed;
    }
  }
}

TYPED_TEST(RandomStepTest, another_program_gives_other_bits) {
  auto const way = all_ways().front();
  EXPECT_FALSE(same_bits(RandomStep<TypeParam>(this->random.seed(), way).run(),
                         RandomStep<TypeParam>(this->random.seed() + 1, way).run()));
}

}  // namespace
}  // namespace msstream::testing
