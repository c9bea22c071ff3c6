// SPDX-License-Identifier: Apache-2.0
// Tests the traces of data parallel steps, and what is predicted from them for more ranks.
#include "base/message_of.hpp"
#include "comm/ranks.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/data_parallel.hpp>
#include <msstream/step/ranks_model.hpp>
#include <msstream/step/record_step.hpp>

#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using comm::CollectiveKind;

/// The bytes that a rank gives to the collectives of a step, by communicator and kind.
std::map<std::string, std::vector<std::size_t>> given_bytes(StepTrace const& trace) {
  std::map<std::string, std::vector<std::size_t>> bytes;
  for (auto const& operation : trace.operations()) {
    if (auto const& collective = operation.collective) {
      bytes[collective->communicator + " " + std::string(name_of(collective->kind))].push_back(
          collective->bytes);
    }
  }
  return bytes;
}

/// A table of 40 rows of 4, and a weight of [4, 1], trained on 6 samples of 3 ids a rank.
template <Runtime R>
struct TableAndWeight {
  explicit TableAndWeight(Rank<R> const& rank)
      : device(rank.device),
        parameters(device),
        table(parameters.table("table", {40, 4}, init::uniform(-1, 1))),
        weight(parameters.dense("weight", {4, 1}, init::normal())),
        ids(rank.tensor(std::vector<std::int64_t>(18, 7)).reshaped({6, 3})),
        labels(rank.tensor(std::vector<float>(6, 1)).reshaped({6, 1})),
        tape(device),
        optimizer(device,
                  ops::OptimizerRule{.kind = ops::OptimizerKind::sgd, .learning_rate = 0.1F}),
        parallel(parameters, rank.communicator) {
    optimizer.add(parameters);
  }
  void step() {
    auto const rows = ops::embedding_lookup(tape, table, ops::Bags<R>(ids));
    parallel.backward(tape,
                      ops::mean_bce_with_logits(tape, ops::matmul(tape, rows, weight), labels));
    optimizer.step(tape);
    tape.clear();
  }

  Device<R> device;
  Parameters<R> parameters;
  Tensor<float, R> table;
  Tensor<float, R> weight;
  Tensor<std::int64_t, R> ids;
  Tensor<float, R> labels;
  GradientTape<R> tape;
  Optimizer<R> optimizer;
  DataParallel<R> parallel;
};

/// Returns links of nodes of 8 ranks, with all kinds.
comm::Links links_of_eight() {
  comm::Links links{.ranks_per_node = 8, .multiprocessors = 8};
  for (auto const kind : {CollectiveKind::all_reduce,
                          CollectiveKind::all_gather,
                          CollectiveKind::reduce_scatter,
                          CollectiveKind::all_to_all,
                          CollectiveKind::broadcast}) {
    links.inside[kind] = {.latency_ns = 10'000, .step_ns = 1000, .bytes_per_ns = 200};
    links.between[kind] = {.latency_ns = 20'000, .step_ns = 5000, .bytes_per_ns = 20};
  }
  return links;
}

template <class R>
class PredictedRanksTest : public RanksTest<R> {};
TYPED_TEST_SUITE(PredictedRanksTest, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(PredictedRanksTest, a_data_parallel_step_has_its_buckets_and_rows) {
  on_ranks<TypeParam>(2, [](Rank<TypeParam> const& rank) {
    TableAndWeight model(rank);
    model.step();
    auto const trace = record_step(rank.device, [&] { model.step(); });
    // A bucket is filled up to a multiple of 4 elements for each rank. A rank sends its 18 ids, and
    // the gradients of its 6 pooled rows.
    EXPECT_THAT(
        given_bytes(trace),
        ::testing::UnorderedElementsAre(
            ::testing::Pair("world all_reduce",
                            ::testing::ElementsAre(4 * 4 * static_cast<std::size_t>(rank.size()))),
            ::testing::Pair("world all_gather", ::testing::ElementsAre(18 * 8, 6 * 4 * 4))));
    double before = 0;
    for (int const ranks : {1, 2, 4, 8, 64, 1024}) {
      for (auto const launch : {StepModel::Launch::eager, StepModel::Launch::graph}) {
        auto const now =
            predict(trace, links_of_eight(), {.ranks = ranks, .step = {.launch = launch}});
        EXPECT_GE(now.step_ns, now.collectives_ns - 1) << "one runs after the other";
        EXPECT_GE(now.collectives_ns, before) << ranks;
        before = now.collectives_ns;
      }
    }
  });
}

TYPED_TEST(PredictedRanksTest, one_rank_has_the_buckets_of_gradients_and_no_rows_to_exchange) {
  on_ranks<TypeParam>(1, [](Rank<TypeParam> const& rank) {
    TableAndWeight model(rank);
    model.step();
    auto const trace = record_step(rank.device, [&] { model.step(); });
    EXPECT_THAT(
        given_bytes(trace),
        ::testing::ElementsAre(::testing::Pair("world all_reduce", ::testing::ElementsAre(4 * 4))));
    EXPECT_GT(predict(trace, links_of_eight(), {.ranks = 16}).collectives_ns, 0);
  });
}

TYPED_TEST(PredictedRanksTest, of_a_step_with_groups_of_ranks_are_refused) {
  using R = TypeParam;
  on_ranks<R>(2, [](Rank<R> const& rank) {
    comm::Communicator<R> const alone(
        rank.device, rank.world.split(rank.rank()), {.name = "alone"});
    auto const x = rank.tensor(std::vector<float>{1});
    auto const trace = record_step(rank.device, [&] {
      all_reduce(rank.communicator, x);
      all_reduce(alone, x);
    });
    EXPECT_THAT(message_of<std::invalid_argument>(
                    [&] { (void)predict(trace, links_of_eight(), {.ranks = 4}); }),
                ::testing::HasSubstr("collectives of 2 and of 1 ranks"));
  });
}

}  // namespace
}  // namespace msstream::testing
