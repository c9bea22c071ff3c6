// SPDX-License-Identifier: Apache-2.0
#include "step/pipeline/two_stage_fixture.hpp"
#include "stream/dependency_tracker.hpp"

#include <msstream/step/record_step.hpp>

#include <cmath>
#include <cstddef>
#include <type_traits>

namespace msstream::testing {
namespace {

/// A model with embedding tables, and its captured pipeline of two stages.
template <Runtime R>
class CapturedPipelined {
 public:
  using Model = EmbeddingModel<R>;

  CapturedPipelined(EmbeddingProblem const& problem,
                    Staleness staleness,
                    TrainedBy const& by = {.groups = 2},
                    typename ModelStages<R>::Before before = {})
      : model(problem, by),
        stages_(model, std::move(before)),
        pipeline(
            model.device,
            model.options(staleness),
            [this] { return typename Model::Batch(model.device); },
            stages_.prepare(),
            stages_.embed(),
            stages_.main(),
            stages_.update()) {
    model.optimizer.add_table("tables", model.tables.weights());
  }

  std::optional<Tensor<float, R>> run(int batch) {
    return pipeline.run([&](typename Model::Batch const& inputs) { model.fill(inputs, batch); });
  }
  std::optional<Tensor<float, R>> finish() { return pipeline.finish(); }

  Model model;

 private:
  ModelStages<R> stages_;

 public:
  CapturedTwoStage<R,
                   typename Model::Batch,
                   typename Model::Prepared,
                   typename Model::Features,
                   Tensor<float, R>>
      pipeline;
};

template <class R>
class CapturedTwoStageTest : public OpsTest<R> {
 protected:
  EmbeddingProblem problem{this->random, 12};
  std::vector<int> const all{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
};
TYPED_TEST_SUITE(CapturedTwoStageTest, PlainRuntimes, RuntimeNames);

TYPED_TEST(CapturedTwoStageTest, gives_the_bits_of_eager_steps) {
  for (auto const staleness : {Staleness::exact, Staleness::one_step_stale}) {
    Pipelined<TypeParam> eager(this->problem, staleness, {});
    auto const expected = train<TypeParam>(eager, this->all);
    ASSERT_EQ(expected.losses.size(), this->all.size());
    for (auto const& way : ways_to_train()) {
      CapturedPipelined<TypeParam> captured(this->problem, staleness, way);
      EXPECT_EQ(train<TypeParam>(captured, this->all), expected) << way.groups;
    }
  }
}

TYPED_TEST(CapturedTwoStageTest, is_deduced_from_its_stages) {
  CapturedPipelined<TypeParam> captured(this->problem, Staleness::exact);
  auto& model = captured.model;
  ModelStages<TypeParam> stages(model);
  CapturedTwoStage pipeline(
      model.device,
      {.first = model.pool[1], .main = model.pool[0]},
      [&] { return typename EmbeddingModel<TypeParam>::Batch(model.device); },
      stages.prepare(),
      stages.embed(),
      stages.main(),
      stages.update());
  static_assert(std::is_same_v<decltype(pipeline), decltype(captured.pipeline)>);
  EXPECT_FALSE(pipeline.finish());
}

TYPED_TEST(CapturedTwoStageTest, may_be_emptied_and_go_on) {
  for (auto const staleness : {Staleness::exact, Staleness::one_step_stale}) {
    std::set<int> const ends{0, 4, 5, 6, 9};
    Pipelined<TypeParam> eager(this->problem, staleness);
    CapturedPipelined<TypeParam> captured(this->problem, staleness);
    EXPECT_EQ(train<TypeParam>(captured, this->all, ends),
              train<TypeParam>(eager, this->all, ends));
  }
}

TYPED_TEST(CapturedTwoStageTest, stages_run_twice_for_each_of_two_batches_in_flight) {
  for (auto const staleness : {Staleness::exact, Staleness::one_step_stale}) {
    std::multiset<std::string> calls;
    CapturedPipelined<TypeParam> captured(
        this->problem, staleness, {.groups = 2}, [&](std::string const& stage, int) {
          calls.insert(stage);
        });
    for (int batch = 0; batch < 5; ++batch) {
      captured.run(batch);
    }
    auto const before = captured.model.device.operation_count();
    captured.run(5);
    auto const copies = 2;
    auto const replays = staleness == Staleness::exact ? 2 : 3;
    EXPECT_EQ(captured.model.device.operation_count() - before, copies + replays);
    for (std::string const stage : {"prepare", "embed", "main", "update"}) {
      EXPECT_EQ(calls.count(stage), 4U) << stage;
    }
  }
}

TYPED_TEST(CapturedTwoStageTest, replays_follow_what_they_need_and_nothing_else) {
  for (auto const staleness : {Staleness::exact, Staleness::one_step_stale}) {
    CapturedPipelined<TypeParam> captured(this->problem, staleness);
    for (int batch = 0; batch < 5; ++batch) {
      captured.run(batch);
    }
    auto const trace = record_step(captured.model.device, [&] { captured.run(5); });
    std::vector<std::size_t> replays;
    for (std::size_t i = 0; i < trace.operations().size(); ++i) {
      if (trace.operations()[i].name == "replay") {
        replays.push_back(i);
      }
    }
    auto const follows = [&](std::size_t later, std::size_t earlier) {
      auto const& after = trace.operations()[replays.at(later)].after;
      return std::ranges::find(after, replays.at(earlier)) != after.end();
    };
    EXPECT_EQ(trace.group_of(replays.at(0)), 1);
    EXPECT_EQ(trace.group_of(replays.at(1)), 0);
    EXPECT_FALSE(follows(1, 0)) << "the main stage what is issued ahead";
    if (staleness == Staleness::one_step_stale) {
      EXPECT_TRUE(follows(2, 0)) << "the update the next lookups";
      EXPECT_TRUE(follows(2, 1));
    }
  }
}

TYPED_TEST(CapturedTwoStageTest, the_main_stage_does_not_wait_for_what_is_issued_ahead_of_it) {
  CapturedPipelined<TypeParam> captured(this->problem, Staleness::exact);
  auto& pool = captured.model.pool;
  auto& tracker = *captured.model.device.tracker();
  auto& main = pool[0].compute().engine().slot();
  for (int batch = 0; batch < 5; ++batch) {
    captured.run(batch);
  }
  Gate gate;  // keeps later work incomplete
  // The queue of the first stage's group is [wait for the test's gate, work ahead of batch 5, work
  // ahead of batch 6]; that of the main stage is [… batch 4, batch 5].
  gate.hold(pool[1].compute());
  captured.run(5);
  auto const ahead_of_5 = newest(pool[1]);
  EXPECT_FALSE(tracker.covers(main, ahead_of_5));
  captured.run(6);
  EXPECT_TRUE(tracker.covers(main, ahead_of_5));
  EXPECT_FALSE(tracker.covers(main, newest(pool[1])));
}

TYPED_TEST(CapturedTwoStageTest, may_go_with_a_batch_in_flight) {
  for (auto const staleness : {Staleness::exact, Staleness::one_step_stale}) {
    for (int const batches : {1, 3, 4, 8}) {
      std::optional<Tensor<float, TypeParam>> loss;
      {
        CapturedPipelined<TypeParam> captured(this->problem, staleness);
        for (int batch = 0; batch < batches; ++batch) {
          loss = captured.run(batch);
        }
      }
      if (loss) {
        EXPECT_TRUE(std::isfinite(to_host(*loss).front()));
      }
    }
  }
}

TYPED_TEST(CapturedTwoStageTest, a_batch_of_which_a_stage_throws_is_left_out) {
  auto const expected = train_in_turn<TypeParam>(this->problem, {0, 1, 2, 4, 5, 6, 7, 8, 9, 10});
  for (std::string const stage : {"prepare", "embed", "main", "update"}) {
    int prepared = 0;
    CapturedPipelined<TypeParam> captured(
        this->problem, Staleness::exact, {.groups = 2}, [&](std::string const& called, int number) {
          prepared += called == "prepare" ? 1 : 0;
          if (called == stage && number == 3) {
            throw std::runtime_error("in the capture of batch 3");
          }
        });
    EXPECT_EQ(train<TypeParam>(captured, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), expected) << stage;
    EXPECT_EQ(prepared, 5) << "captured anew after " << stage;
  }
}

TYPED_TEST(CapturedTwoStageTest, a_batch_that_cannot_be_filled_is_left_out) {
  auto const expected = train_in_turn<TypeParam>(this->problem, {0, 1, 2, 3, 4, 6, 7, 8, 9});
  CapturedPipelined<TypeParam> captured(this->problem, Staleness::exact);
  Losses<TypeParam> losses(captured.model.device);
  for (int batch = 0; batch < 10; ++batch) {
    if (batch == 5) {
      EXPECT_THROW(captured.pipeline.run([](auto const&) { throw std::runtime_error("no batch"); }),
                   std::runtime_error);
    } else {
      losses.add(captured.run(batch));
    }
  }
  losses.add(captured.finish());
  EXPECT_EQ((Trained{losses.on_host(), captured.model.parameters()}), expected);
}

}  // namespace
}  // namespace msstream::testing
