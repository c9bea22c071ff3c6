// SPDX-License-Identifier: Apache-2.0
// Tests that steps on ranks have the same bits whether or not the memory for the rows of their
// lookups is kept from step to step. On the host no transport gains by such memory, so the tests
// say from how many bytes on it is kept.
#include "comm/communicator_state.hpp"
#include "comm/ranks.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/data_parallel.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace msstream::testing {
namespace {

constexpr std::size_t kNothingKept = std::numeric_limits<std::size_t>::max();

/// Two tables in one lookup, and a weight of [7, 1].
template <Runtime R>
class KeptRowsModel {
 public:
  KeptRowsModel(Rank<R> const& rank, std::size_t least_bytes)
      : rank_(rank), parameters_(rank.device, {.seed = 1}) {
    rank.communicator.any().state().set_least_symmetric_bytes(least_bytes);
    optimizer_.add(parameters_);
  }

  /// Leaves the gradients of a batch of so many samples of this rank on a tape.
  void backward(int tape_number, std::int64_t samples) {
    auto& tape = tapes_[static_cast<std::size_t>(tape_number)];
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < 3 * samples; ++i) {
      ids.push_back((i * samples + rank_.rank()) % 7);
    }
    auto const of_samples = rank_.tensor(ids);
    auto const labels = rank_.tensor(std::vector<float>(static_cast<std::size_t>(samples), 1))
                            .reshaped({samples, 1});
    backward(tape, of_samples, labels);
  }
  /// Updates by the gradients of a tape.
  void update(int tape_number) {
    auto& tape = tapes_[static_cast<std::size_t>(tape_number)];
    optimizer_.step(tape);
    tape.clear();
  }
  /// Captures a step of so many samples, and replays it.
  void train_captured(std::int64_t samples, int replays) {
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < 3 * samples; ++i) {
      ids.push_back(i % 5);
    }
    auto const of_samples = rank_.tensor(ids);
    auto const labels = rank_.tensor(std::vector<float>(static_cast<std::size_t>(samples), 1))
                            .reshaped({samples, 1});
    CapturedStep<R> step(rank_.device, [&] {
      backward(tapes_[0], of_samples, labels);
      update(0);
    });
    for (int i = 0; i < replays; ++i) {
      step.replay();
    }
  }
  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> all;
    for (auto const& tensor : {first_, second_, weight_}) {
      auto const own = to_host(tensor);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

 private:
  void backward(GradientTape<R>& tape,
                Tensor<std::int64_t, R> const& ids,
                Tensor<float, R> const& labels) {
    (void)parallel_.backward_in_parts(tape, [&](int) {
      auto const rows =
          ops::embedding_lookup(tape, together_, {.ids = ids, .batch = labels.shape()[0]});
      return std::optional(
          ops::mean_bce_with_logits(tape, ops::matmul(tape, rows, weight_), labels));
    });
  }

  Rank<R> const& rank_;
  Parameters<R> parameters_;
  Tensor<float, R> first_ = parameters_.table("first", {40, 3}, init::uniform(-1, 1));
  Tensor<float, R> second_ = parameters_.table("second", {7, 4}, init::uniform(-1, 1));
  Tensor<float, R> weight_ = parameters_.dense("weight", {7, 1}, init::normal());
  ops::EmbeddingTables<R> together_{
      rank_.device, {{.weights = first_, .hotness = 2}, {.weights = second_, .hotness = 1}}};
  Optimizer<R> optimizer_{rank_.device, {.kind = ops::OptimizerKind::adam, .learning_rate = 0.1F}};
  std::array<GradientTape<R>, 2> tapes_{GradientTape<R>(rank_.device),
                                        GradientTape<R>(rank_.device)};
  DataParallel<R> parallel_{parameters_, rank_.communicator};
};

template <class R>
class KeptRowsTest : public ::testing::Test {
 protected:
  /// Returns the values of two ranks after `train(model)`, which are equal.
  template <class Train>
  static std::vector<std::int64_t> trained(std::size_t least_bytes, Train const& train) {
    std::mutex mutex;
    std::map<int, std::vector<float>> results;
    on_ranks<R>(2, [&](Rank<R> const& rank) {
      KeptRowsModel<R> model(rank, least_bytes);
      train(model);
      auto values = model.values();
      std::lock_guard const guard(mutex);
      results[rank.rank()] = std::move(values);
    });
    EXPECT_EQ(bits_of(results[0]), bits_of(results[1]));
    return bits_of(results[0]);
  }
  template <class Train>
  static void expect_same_bits(Train const& train) {
    auto const expected = trained(kNothingKept, train);
    EXPECT_EQ(trained(1, train), expected);
    EXPECT_EQ(trained(2 * 9 * 7 * sizeof(float), train), expected) << "of large batches";
  }
};
TYPED_TEST_SUITE(KeptRowsTest, ThreadRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(KeptRowsTest, batches_that_grow_and_shrink_have_the_same_bits) {
  this->expect_same_bits([](auto& model) {
    for (std::int64_t const samples : {4, 9, 2, 12, 12, 30, 1}) {
      model.backward(0, samples);
      model.update(0);
    }
  });
}

TYPED_TEST(KeptRowsTest, an_update_after_the_backward_of_another_tape_has_the_same_bits) {
  this->expect_same_bits([](auto& model) {
    for (std::int64_t const samples : {9, 4, 16}) {
      model.backward(0, samples);
      model.backward(1, samples + 3);  // overwrites the rows of the first backward
      model.update(0);
      model.update(1);
    }
  });
}

TYPED_TEST(KeptRowsTest, captured_steps_have_the_same_bits) {
  this->expect_same_bits([](auto& model) {
    model.train_captured(9, 2);  // without memory that is kept, which a capture does not make
    model.backward(0, 12);
    model.update(0);
    model.train_captured(9, 2);
    model.train_captured(12, 2);
  });
}

}  // namespace
}  // namespace msstream::testing
