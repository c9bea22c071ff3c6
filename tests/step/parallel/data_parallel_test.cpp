// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "comm/kept_ranks.hpp"
#include "memory/journal.hpp"
#include "runtime/gate.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/data_parallel.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kIn = 5;
constexpr std::int64_t kWidthOfHidden = 7;
constexpr int kSteps = 6;
constexpr float kRate = 0.5F;

/// The rows of a whole batch, equal on all ranks.
struct WholeBatch {
  std::int64_t rows;
  std::vector<float> x = random_elements<float>(11, static_cast<std::size_t>(rows* kIn));
  std::vector<float> labels = [this] {
    auto values = random_elements<float>(12, static_cast<std::size_t>(rows));
    for (auto& value : values) {
      value = value > 0 ? 1.0F : 0.0F;
    }
    return values;
  }();
};

/// A model of two layers, with first values that differ between ranks unless they are exchanged.
template <Runtime R>
struct Mlp {
  explicit Mlp(Device<R> const& device, std::uint64_t seed) : parameters(device, {.seed = seed}) {}

  Parameters<R> parameters;
  Tensor<float, R> w1 = parameters.dense("w1", {kIn, kWidthOfHidden}, init::uniform(-1, 1));
  Tensor<float, R> b1 = parameters.dense("b1", {kWidthOfHidden}, init::uniform(-1, 1));
  Tensor<float, R> w2 = parameters.dense("w2", {kWidthOfHidden, 1}, init::uniform(-1, 1));

  [[nodiscard]] Tensor<float, R> loss(GradientTape<R>& tape,
                                      Tensor<float, R> const& x,
                                      Tensor<float, R> const& labels) const {
    auto const hidden = ops::relu(tape, ops::dense(tape, x, w1, b1));
    return ops::mean_bce_with_logits(tape, ops::matmul(tape, hidden, w2), labels);
  }
  /// Returns all parameters, one after the other.
  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> all;
    for (auto const& tensor : {w1, b1, w2}) {
      auto const own = to_host(tensor);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }
};

/// Trains the model on the whole batch in double, from the values of Mlp::values().
[[nodiscard]] std::vector<double> reference(std::vector<float> const& first,
                                            WholeBatch const& batch,
                                            double clip) {
  std::vector<double> p(first.begin(), first.end());
  std::size_t const b = kIn * kWidthOfHidden;
  std::size_t const w = b + kWidthOfHidden;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<double> g(p.size());
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      auto const* x = batch.x.data() + row * kIn;
      double h[kWidthOfHidden];
      double logit = 0;
      for (std::size_t j = 0; j < kWidthOfHidden; ++j) {
        h[j] = p[b + j];
        for (std::size_t i = 0; i < kIn; ++i) {
          h[j] += x[i] * p[i * kWidthOfHidden + j];
        }
        h[j] = std::max(h[j], 0.0);
        logit += h[j] * p[w + j];
      }
      double const d = (1 / (1 + std::exp(-logit)) - batch.labels[static_cast<std::size_t>(row)]) /
                       static_cast<double>(batch.rows);
      for (std::size_t j = 0; j < kWidthOfHidden; ++j) {
        g[w + j] += d * h[j];
        if (h[j] > 0) {
          g[b + j] += d * p[w + j];
          for (std::size_t i = 0; i < kIn; ++i) {
            g[i * kWidthOfHidden + j] += d * p[w + j] * x[i];
          }
        }
      }
    }
    double norm = 0;
    for (auto const value : g) {
      norm += value * value;
    }
    double const factor = std::min(1.0, clip / std::sqrt(norm));
    for (std::size_t i = 0; i < p.size(); ++i) {
      p[i] -= kRate * factor * g[i];
    }
  }
  return p;
}

void expect_values_near(std::vector<float> const& values, std::vector<double> const& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], 2e-5 * (1 + std::abs(expected[i]))) << "element " << i;
  }
}

struct WayToTrain {
  int groups = 0;  ///< the groups on which layers are, by turns; 0: no scopes
  int micro_batches = 1;
  bool is_captured = false;
  float clip = std::numeric_limits<float>::infinity();
  std::int64_t bucket_bytes = 1;  ///< by default a bucket for each parameter
};

/// Trains on this rank's rows [begin, end), and returns the first and the last values.
template <Runtime R>
std::vector<std::vector<float>> train_share(Rank<R> const& rank,
                                            WholeBatch const& batch,
                                            BatchPart const& own,
                                            WayToTrain const& how) {
  auto const& device = rank.device;
  Mlp<R> const model(device, static_cast<std::uint64_t>(rank.rank()));
  DataParallel<R> const parallel(
      model.parameters, rank.communicator, {.bucket_bytes = how.bucket_bytes});
  auto const first = model.values();
  auto const x = to_device(device, batch.x, {batch.rows, kIn});
  auto const labels = to_device(device, batch.labels, {batch.rows, 1});
  auto const samples = rank.tensor(std::vector<float>{static_cast<float>(own.rows())});
  Optimizer<R> optimizer(
      device, {.kind = ops::OptimizerKind::sgd, .learning_rate = kRate}, {.clip_norm = how.clip});
  optimizer.add(model.parameters);
  std::optional<StreamPool<R>> pool;
  if (how.groups > 0) {
    pool.emplace(device, StreamPoolOptions{.groups = how.groups, .log = nullptr});
  }
  GradientTape<R> tape(device);
  auto const step = [&] {
    for (int i = 0; i < how.micro_batches; ++i) {
      auto const begin = own.begin + own.rows() * i / how.micro_batches;
      auto const end = own.begin + own.rows() * (i + 1) / how.micro_batches;
      std::optional<StreamScope<R>> scope;
      if (pool) {
        scope.emplace((*pool)[i % how.groups], StreamScopeOptions{.include_grad = true});
      }
      auto loss = model.loss(tape, x.rows(begin, end), labels.rows(begin, end));
      loss =
          ops::scale(tape, loss, static_cast<float>(end - begin) / static_cast<float>(own.rows()));
      loss = parallel.weighted(tape, loss, samples);
      scope.reset();
      if (i + 1 < how.micro_batches) {
        tape.backward(loss);
      } else {
        parallel.backward(tape, loss);
      }
    }
    optimizer.step(tape);
    tape.clear();
  };
  if (how.is_captured) {
    CapturedStep<R> captured(device, step);
    for (int i = 0; i < kSteps; ++i) {
      captured.replay();
    }
    return {first, model.values()};
  }
  for (int i = 0; i < kSteps; ++i) {
    step();
  }
  return {first, model.values()};
}

template <class R>
class DataParallelTest : public RanksTest<R> {
 protected:
  /// Trains on the ranks, whose parts of the batch differ by a row, and compares the values of all
  /// ranks with the reference. Returns the last values.
  static std::vector<float> expect_trained(int ranks, WayToTrain const& how) {
    WholeBatch const batch{.rows = 25};
    std::mutex mutex;
    std::map<int, std::vector<std::vector<float>>> results;
    on_kept_ranks<R>(ranks, [&](Rank<R> const& rank) {
      auto const result =
          train_share(rank, batch, batch_parts(batch.rows, rank.size())[rank.rank()], how);
      std::lock_guard const guard(mutex);
      results[rank.rank()] = result;
    });
    for (auto const& [rank, result] : results) {
      EXPECT_EQ(result, results[0]) << "rank " << rank;
      expect_values_near(result[1], reference(result[0], batch, how.clip));
    }
    return results[0][1];
  }
};
TYPED_TEST_SUITE(DataParallelTest, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(DataParallelTest, ranks_train_what_one_trains_on_the_whole_batch) {
  for (int const ranks : numbers_of_ranks<TypeParam>({1, 2, 3, 4})) {
    TestFixture::expect_trained(ranks, {});
  }
}

TYPED_TEST(DataParallelTest, only_the_last_micro_batch_exchanges_gradients) {
  TestFixture::expect_trained(3, {.micro_batches = 3});
}

TYPED_TEST(DataParallelTest, gradients_are_clipped_by_their_norm_over_the_whole_batch) {
  TestFixture::expect_trained(3, {.clip = 0.05F});
}

TYPED_TEST(DataParallelTest, a_captured_step_averages_in_each_replay) {
  TestFixture::expect_trained(3, {.is_captured = true});
}

TYPED_TEST(DataParallelTest, bits_are_equal_for_all_groups_buckets_and_runs) {
  WayToTrain const plain{.micro_batches = 2};
  auto const expected = bits_of(TestFixture::expect_trained(3, plain));
  for (int const groups : {0, 1, 2}) {
    for (std::int64_t const bytes : {1, 40, 1 << 20}) {
      for (bool const is_captured : {false, true}) {
        auto const values = TestFixture::expect_trained(3,
                                                        {.groups = groups,
                                                         .micro_batches = 2,
                                                         .is_captured = is_captured,
                                                         .bucket_bytes = bytes});
        if (!is_by_nccl<TypeParam>) {
          EXPECT_EQ(bits_of(values), expected) << groups << " groups, buckets of " << bytes;
        }
      }
    }
  }
}

/// Records an operation whose backward passes ones to `tensor`, after `before`.
template <Runtime R>
Tensor<float, R> recorded(GradientTape<R>& tape,
                          Tensor<float, R> const& input,
                          Tensor<float, R> const& parameter,
                          std::function<void()> before) {
  Tensor<float, R> const output(tape.device(), input.shape());
  copy(output, input);
  tape.note_inputs(input, parameter);
  tape.record("custom", output, [=](auto& playing, auto const& gradient) {
    before();
    playing.add_gradient(input, gradient);
    Tensor<float, R> const own(playing.device(), parameter.shape());
    issue("gradient", writes(own), on_host(playing.device(), [to = own.data()] { *to = 1; }));
    playing.add_gradient(parameter, own);
  });
  return output;
}

template <class R>
class DataParallelOverlap : public ::testing::Test {};
TYPED_TEST_SUITE(DataParallelOverlap, ThreadRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(DataParallelOverlap, a_bucket_is_reduced_beside_the_rest_of_the_backward) {
  using R = TypeParam;
  on_ranks<R>(2, [](Rank<R> const& rank) {
    Parameters<R> parameters(rank.device);
    auto const first = parameters.dense("first", {1}, init::constant(0));
    auto const last = parameters.dense("last", {1}, init::constant(0));
    DataParallel<R> const parallel(parameters, rank.communicator, {.bucket_bytes = 1});
    auto const x = rank.tensor(std::vector<float>{1});
    GradientTape<R> tape(rank.device);
    StreamPool<R> pool(rank.device, {.groups = 1, .log = nullptr});
    std::optional<StreamScope<R>> scope;
    scope.emplace(pool[0], StreamScopeOptions{.include_grad = true});
    Gate gate;
    std::vector<std::string> issued;
    auto const hidden = recorded<R>(tape, x, first, [&] {
      gate.hold(pool[0].compute());
      // Returns while the rest of the backward is held: the collective does not wait for it.
      rank.communicator.synchronize();
      for (auto const& span : rank.device.stop_spans().spans()) {
        if (span.lane == "comm world") {
          issued.push_back(span.name);
        }
      }
    });
    auto const loss = recorded<R>(tape, hidden, last, [] {});
    scope.reset();
    rank.device.start_spans();
    // The queue of pool[0] is [gradient of last, gate, gradient of first], that of the communicator
    // [wait, concat, all_reduce of last, wait, concat, all_reduce of first].
    parallel.backward(tape, loss);
    EXPECT_THAT(issued, ::testing::Contains(HasSubstr("all_reduce")).Times(1));
    gate.open();
    EXPECT_EQ(to_host(tape.gradient(last))[0], 1);
    EXPECT_EQ(to_host(tape.gradient(first))[0], 1);
  });
}

template <class R>
class DataParallelMisuse : public RanksTest<R> {};
TYPED_TEST_SUITE(DataParallelMisuse, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(DataParallelMisuse, a_rank_that_throws_in_the_backward_is_named_to_the_others) {
  using R = TypeParam;
  std::mutex mutex;
  std::vector<int> lost;
  auto const train = [](Rank<R> const& rank) {
    Parameters<R> parameters(rank.device);
    auto const first = parameters.dense("first", {1}, init::constant(0));
    auto const last = parameters.dense("last", {1}, init::constant(0));
    DataParallel<R> const parallel(parameters, rank.communicator, {.bucket_bytes = 1});
    GradientTape<R> tape(rank.device);
    auto const hidden = ops::multiply(tape, rank.tensor(std::vector<float>{1}), first);
    Tensor<float, R> const broken(rank.device, {1});
    copy(broken, hidden);
    tape.note_inputs(hidden);
    tape.record("broken", broken, [&](auto& playing, auto const& gradient) {
      if (rank.rank() == 1) {
        rank.communicator.synchronize();  // all ranks have come to the first all-reduce
        throw std::runtime_error("a bad row");
      }
      playing.add_gradient(hidden, gradient);
    });
    parallel.backward(tape, ops::multiply(tape, broken, last));
    rank.communicator.synchronize();
  };
  auto const message = message_of<comm::PeerLost>([&] {
    on_ranks<R>(3, [&](Rank<R> const& rank) {
      try {
        train(rank);
      } catch (comm::PeerLost const& failure) {
        std::lock_guard const guard(mutex);
        lost.push_back(failure.rank());
      }
    });
  });
  EXPECT_THAT(message, HasSubstr("rank 1"));
  EXPECT_THAT(lost, ::testing::Each(1));
  EXPECT_EQ(lost.size(), std::min<std::size_t>(2, most_ranks<R>() - 1));
}

TYPED_TEST(DataParallelMisuse, a_parameter_without_a_gradient_is_named) {
  using R = TypeParam;
  on_ranks<R>(1, [](Rank<R> const& rank) {
    Mlp<R> model(rank.device, 0);
    auto const unused = model.parameters.dense("unused", {2}, init::zeros());
    DataParallel<R> const parallel(model.parameters, rank.communicator);
    auto const x = to_device(rank.device, std::vector<float>(kIn, 1), {1, kIn});
    auto const label = to_device(rank.device, std::vector<float>{1}, {1, 1});
    GradientTape<R> tape(rank.device);
    EXPECT_THAT(
        message_of<std::logic_error>([&] { parallel.backward(tape, model.loss(tape, x, label)); }),
        AllOf(HasSubstr("'unused'"), HasSubstr("no gradient on rank 0")));
    // A frozen parameter needs none, and the tape stays usable.
    tape.clear();
    model.parameters.freeze("unused");
    parallel.backward(tape, model.loss(tape, x, label));
    EXPECT_THAT(message_of<std::logic_error>([&] { tape.backward(model.loss(tape, x, label)); }),
                HasSubstr("call clear()"));
  });
}

TYPED_TEST(DataParallelMisuse, an_operation_without_notes_delays_what_it_may_have_read) {
  using R = TypeParam;
  on_ranks<R>(1, [](Rank<R> const& rank) {
    Parameters<R> parameters(rank.device);
    auto const weight = parameters.dense("weight", {1}, init::constant(3));
    DataParallel<R> const parallel(parameters, rank.communicator);
    for (bool const notes_a_part : {false, true}) {
      GradientTape<R> tape(rank.device);
      auto const x = rank.tensor(std::vector<float>{1});
      Tensor<float, R> const first(rank.device, {1});
      copy(first, x);
      if (notes_a_part) {
        tape.note_inputs(x);
      }
      tape.record("first", first, [=](auto& playing, auto const& gradient) {
        playing.add_gradient(weight, gradient);
      });
      auto const loss = ops::multiply(tape, first, weight);
      if (notes_a_part) {
        EXPECT_THAT(message_of<std::logic_error>([&] { parallel.backward(tape, loss); }),
                    HasSubstr("parameter 'weight' after its all-reduce"));
      } else {
        parallel.backward(tape, loss);
        EXPECT_EQ(to_host(tape.gradient(weight))[0], 4);  // 1 of the product, 3 of `first`
      }
    }
  });
}

TYPED_TEST(DataParallelMisuse, options_are_checked) {
  using R = TypeParam;
  on_ranks<R>(1, [](Rank<R> const& rank) {
    Parameters<R> const parameters(rank.device);
    EXPECT_THAT(message_of<std::invalid_argument>(
                    [&] { DataParallel<R>(parameters, rank.communicator, {.bucket_bytes = 0}); }),
                HasSubstr("buckets of 0 bytes"));
    EXPECT_THAT(message_of<std::invalid_argument>([&] {
                  DataParallel<R>(
                      parameters, rank.communicator, {.reduction = comm::Reduction::max});
                }),
                HasSubstr("the max of gradients"));
  });
}

}  // namespace
}  // namespace msstream::testing
