// SPDX-License-Identifier: Apache-2.0
#include "runtime/gate.hpp"
#include "step/pipeline/two_stage_fixture.hpp"
#include "stream/dependency_tracker.hpp"

#include <msstream/step/record_step.hpp>

#include <cstddef>
#include <type_traits>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class R>
class TwoStageTest : public OpsTest<R> {
 protected:
  EmbeddingProblem problem{this->random, 8};
  std::vector<int> const all{0, 1, 2, 3, 4, 5, 6, 7};
};
TYPED_TEST_SUITE(TwoStageTest, Runtimes, RuntimeNames);

TYPED_TEST(TwoStageTest, exact_gives_the_bits_of_one_batch_after_the_other) {
  auto const expected = train_in_turn<TypeParam>(this->problem, this->all);
  ASSERT_EQ(expected.losses.size(), this->all.size());
  for (auto const& way : ways_to_train()) {
    for (auto const& ends : {std::set<int>{}, std::set<int>{0, 3, 4}}) {
      Pipelined<TypeParam> pipelined(this->problem, Staleness::exact, way);
      EXPECT_EQ(train<TypeParam>(pipelined, this->all, ends), expected) << way.groups;
    }
  }
}

TYPED_TEST(TwoStageTest, one_step_stale_is_training_with_lookups_one_update_behind) {
  auto const expected = train_on_old_tables<TypeParam>(this->problem, this->all);
  for (auto const& way : ways_to_train()) {
    Pipelined<TypeParam> pipelined(this->problem, Staleness::one_step_stale, way);
    EXPECT_EQ(train<TypeParam>(pipelined, this->all), expected) << way.groups;
  }
  auto const exact = train_in_turn<TypeParam>(this->problem, this->all);
  EXPECT_EQ(expected.losses[0], exact.losses[0]) << "nothing was updated before";
  EXPECT_FALSE(same_bits(expected.losses, exact.losses));
}

TYPED_TEST(TwoStageTest, after_finish_nothing_is_stale) {
  Pipelined<TypeParam> pipelined(this->problem, Staleness::one_step_stale);
  EXPECT_EQ(train<TypeParam>(pipelined, this->all, {0, 1, 2, 3, 4, 5, 6, 7}),
            train_in_turn<TypeParam>(this->problem, this->all));
}

TYPED_TEST(TwoStageTest, is_deduced_from_its_stages) {
  Pipelined<TypeParam> pipelined(this->problem, Staleness::exact);
  auto& model = pipelined.model;
  ModelStages<TypeParam> stages(model);
  TwoStage pipeline(model.device,
                    {.first = model.pool[1], .main = model.pool[0]},
                    stages.prepare(),
                    stages.embed(),
                    stages.main(),
                    stages.update());
  static_assert(std::is_same_v<decltype(pipeline), decltype(pipelined.pipeline)>);
  EXPECT_FALSE(pipeline.finish());
}

/// Returns the names of all operations of the trace that must come, directly or indirectly, before
/// operations whose names contain `part_of_name`.
std::set<std::string> names_before(StepTrace const& trace, std::string const& part_of_name) {
  auto const& operations = trace.operations();
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (operations[i].name.find(part_of_name) != std::string::npos) {
      open.push_back(i);
    }
  }
  EXPECT_FALSE(open.empty()) << part_of_name;
  std::set<std::size_t> followed;
  while (!open.empty()) {
    auto const operation = open.back();
    open.pop_back();
    for (auto const earlier : operations[operation].after) {
      if (followed.insert(earlier).second) {
        open.push_back(earlier);
      }
    }
  }
  std::set<std::string> names;
  for (auto const i : followed) {
    names.insert(operations[i].name);
  }
  return names;
}

bool any_has(std::set<std::string> const& names, std::string const& part) {
  return std::ranges::any_of(
      names, [&](auto const& name) { return name.find(part) != std::string::npos; });
}

TYPED_TEST(TwoStageTest, operations_follow_what_they_need_and_nothing_else) {
  for (auto const staleness : {Staleness::exact, Staleness::one_step_stale}) {
    Pipelined<TypeParam> pipelined(this->problem, staleness);
    pipelined.run(0);
    auto const trace = record_step(pipelined.model.device, [&] {
      for (int batch = 1; batch < 4; ++batch) {
        pipelined.run(batch);
      }
    });
    for (auto const& name : names_before(trace, "prepare3/")) {
      EXPECT_TRUE(name == "copy_h2d" || name.starts_with("prepare3/")) << name;
    }
    auto const before_lookup = names_before(trace, "embed2/embedding_lookup");
    auto const before_update = names_before(trace, "update1/tables/update_rows");
    if (staleness == Staleness::exact) {
      EXPECT_TRUE(any_has(before_lookup, "update1/tables/update_rows"));
    } else {
      EXPECT_FALSE(any_has(before_lookup, "update1/"));
      EXPECT_TRUE(any_has(before_lookup, "update0/tables/update_rows"));
      EXPECT_TRUE(any_has(before_update, "embed2/embedding_lookup"));
    }
    EXPECT_TRUE(any_has(names_before(trace, "main2/dense"), "embed2/embedding_lookup"));
    EXPECT_TRUE(any_has(names_before(trace, "gradients/embed2/"), "prepare2/deduplicate"))
        << "ids are grouped ahead";
  }
}

TYPED_TEST(TwoStageTest, the_main_stage_does_not_wait_for_what_is_issued_ahead_of_it) {
  for (auto const staleness : {Staleness::exact, Staleness::one_step_stale}) {
    std::function<void()> before_update;
    Pipelined<TypeParam> pipelined(
        this->problem, staleness, {.groups = 2}, [&](std::string const& stage, int) {
          if (stage == "update" && before_update) {
            before_update();
          }
        });
    auto& pool = pipelined.model.pool;
    auto& tracker = *pipelined.model.device.tracker();
    auto& main = pool[0].compute().engine().slot();
    pipelined.run(0);
    pipelined.run(1);
    Gate gate;  // keeps later work incomplete
    // The queue of the first stage's group is [wait for the test's gate, work ahead of batch 2,
    // work ahead of batch 3]; that of the main stage is [… batch 1, batch 2].
    gate.hold(pool[1].compute());
    pipelined.run(2);
    auto const ahead_of_2 = newest(pool[1]);
    EXPECT_FALSE(tracker.covers(main, ahead_of_2) && staleness == Staleness::exact);
    int updates = 0;
    before_update = [&] {
      ++updates;
      EXPECT_TRUE(tracker.covers(main, ahead_of_2));
      EXPECT_FALSE(tracker.covers(main, newest(pool[1]))) << "the lookups of batch 3";
    };
    pipelined.run(3);
    EXPECT_EQ(updates, 1);
  }
}

TYPED_TEST(TwoStageTest, what_is_issued_ahead_does_not_wait_for_the_main_stage) {
  for (auto const staleness : {Staleness::exact, Staleness::one_step_stale}) {
    Pipelined<TypeParam> pipelined(this->problem, staleness);
    auto& pool = pipelined.model.pool;
    auto& tracker = *pipelined.model.device.tracker();
    auto& first = pool[1].compute().engine().slot();
    pipelined.run(0);
    pipelined.run(1);
    Gate gate;
    // The queue of the first stage's group is [work ahead of batch 2, work ahead of batch 3]; that
    // of the main stage is [wait for the test's gate, batch 1, batch 2].
    gate.hold(pool[0].compute());
    pipelined.run(2);
    auto const update_of_1 = newest(pool[0]);
    EXPECT_FALSE(tracker.covers(first, update_of_1));
    pipelined.run(3);
    EXPECT_EQ(tracker.covers(first, update_of_1), staleness == Staleness::one_step_stale);
    EXPECT_FALSE(tracker.covers(first, newest(pool[0])));
  }
}

/// Returns a function, for ModelStages, that throws when the stage `broken` is called for the
/// fourth time.
ModelStages<Host>::Before throwing_in(std::string const& broken) {
  return [broken](std::string const& stage, int number) {
    if (stage == broken && number == 3) {
      throw std::runtime_error(broken);
    }
  };
}

TYPED_TEST(TwoStageTest, a_batch_of_which_a_stage_throws_is_left_out) {
  auto const expected = train_in_turn<TypeParam>(this->problem, {0, 1, 2, 4, 5, 6, 7});
  for (std::string const stage : {"prepare", "embed", "main", "update"}) {
    Pipelined<TypeParam> pipelined(
        this->problem, Staleness::exact, {.groups = 2}, throwing_in(stage));
    EXPECT_EQ(train<TypeParam>(pipelined, this->all), expected) << stage;
  }
  auto const stale = train_on_old_tables<TypeParam>(this->problem, {0, 1, 2, 4, 5, 6, 7});
  for (std::string const stage : {"prepare", "embed"}) {
    Pipelined<TypeParam> pipelined(
        this->problem, Staleness::one_step_stale, {.groups = 2}, throwing_in(stage));
    EXPECT_EQ(train<TypeParam>(pipelined, this->all), stale) << stage;
  }
}

}  // namespace
}  // namespace msstream::testing
