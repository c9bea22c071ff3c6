// SPDX-License-Identifier: Apache-2.0
#include "step/captured_fixture.hpp"

#include <msstream/ops/embedding.hpp>
#include <msstream/step/captured_steps.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kBags = 6;
constexpr std::int64_t kRows = 40;
constexpr std::int64_t kWidth = 3;

/// Jagged bags of up to so many ids.
template <Runtime R>
struct Inputs {
  Tensor<std::int64_t, R> ids;
  Tensor<std::int64_t, R> offsets;

  Inputs(Device<R> const& device, std::int64_t capacity)
      : ids(device, {capacity}), offsets(device, {kBags + 1}) {}
};

struct Batch {
  Integers ids;
  Integers offsets;
};

template <class R>
class CapturedStepsTest : public OpsTest<R> {
 protected:
  using Floats32 = Tensor<float, R>;

  void SetUp() override {
    OpsTest<R>::SetUp();
    if (!this->IsSkipped()) {
      table_.emplace(this->random_tensor({kRows, kWidth}));
    }
  }
  void TearDown() override {
    table_.reset();
    OpsTest<R>::TearDown();
  }

  /// Ids in bags of any lengths.
  Batch batch(std::int64_t ids) {
    Batch made{this->random.integers(ids, 0, kRows - 1), this->random.integers(kBags - 1, 0, ids)};
    std::ranges::sort(made.offsets);
    made.offsets.insert(made.offsets.begin(), 0);
    made.offsets.push_back(ids);
    return made;
  }
  void fill(Inputs<R> const& inputs, Batch const& batch) {
    auto const count = static_cast<std::int64_t>(batch.ids.size());
    copy(inputs.ids.rows(0, count), this->put(batch.ids));
    copy(inputs.offsets, this->put(batch.offsets));
  }
  Floats32 step(Inputs<R> const& inputs) {
    ++steps_;
    return ops::scale(ops::embedding_lookup(*table_, inputs.ids, inputs.offsets, ops::Pooling::sum),
                      2.0F);
  }
  Floats eager(Batch const& batch) {
    Inputs<R> const inputs(this->device(), static_cast<std::int64_t>(batch.ids.size()));
    fill(inputs, batch);
    return to_host(step(inputs));
  }
  CapturedSteps<R, Inputs<R>, Floats32> captured(CapturedStepsOptions options) {
    options.log = [this](std::string const& line) { lines_.push_back(line); };
    return {this->device(),
            [this](std::int64_t capacity) { return Inputs<R>(this->device(), capacity); },
            [this](Inputs<R> const& inputs) { return step(inputs); },
            options};
  }

  std::optional<Floats32> table_;
  int steps_ = 0;
  std::vector<std::string> lines_;
};
TYPED_TEST_SUITE(CapturedStepsTest, PlainRuntimes, RuntimeNames);

TYPED_TEST(CapturedStepsTest, one_graph_serves_every_batch_up_to_its_capacity) {
  auto steps = this->captured({.capacities = {64}});
  for (int i = 0; i < 20; ++i) {
    auto const batch = this->batch(this->random.integer(0, 64));
    auto const result = steps.run(static_cast<std::int64_t>(batch.ids.size()),
                                  [&](auto const& inputs) { this->fill(inputs, batch); });
    EXPECT_TRUE(same_bits(to_host(result), this->eager(batch)));
  }
  EXPECT_EQ(steps.counts().captures, 1U);
  EXPECT_EQ(steps.counts().replays, 19U);
  EXPECT_EQ(steps.counts().eager_first, 1U);
  EXPECT_EQ(this->steps_, 2 + 20) << "once eagerly, once captured, and 20 to compare with";
}

TYPED_TEST(CapturedStepsTest, a_batch_goes_to_the_least_capacity_that_holds_it) {
  auto steps = this->captured({.capacities = {4, 8, 100}, .eager_first = 0});
  std::vector<std::int64_t> capacities;
  for (std::int64_t const count : {0, 4, 5, 8, 9, 100}) {
    auto const batch = this->batch(count);
    auto const result = steps.run(count, [&](auto const& inputs) {
      capacities.push_back(inputs.ids.count());
      this->fill(inputs, batch);
    });
    EXPECT_TRUE(same_bits(to_host(result), this->eager(batch))) << count;
  }
  EXPECT_EQ(capacities, (std::vector<std::int64_t>{4, 4, 8, 8, 100, 100}));
  EXPECT_EQ(steps.counts().captures, 3U);
  EXPECT_EQ(steps.counts().replays, 6U);
  ASSERT_EQ(this->lines_.size(), 3U);
  EXPECT_THAT(this->lines_[1], HasSubstr("captured for up to 8, when a batch of 5 came"));
}

TYPED_TEST(CapturedStepsTest, a_batch_above_every_capacity_runs_eagerly_and_says_so) {
  auto steps = this->captured({.capacities = {4}, .eager_first = 0});
  for (int i = 0; i < 5; ++i) {
    auto const batch = this->batch(9 + i);
    auto const result = steps.run(9 + i, [&](auto const& inputs) { this->fill(inputs, batch); });
    EXPECT_TRUE(same_bits(to_host(result), this->eager(batch)));
  }
  EXPECT_EQ(steps.counts().too_large, 5U);
  EXPECT_EQ(steps.counts().captures, 0U);
  ASSERT_EQ(this->lines_.size(), 3U) << "the first, the second and the fourth";
  EXPECT_THAT(this->lines_[0], HasSubstr("a batch of 9 is above the largest capacity, 4"));
}

TYPED_TEST(CapturedStepsTest, the_least_recently_used_step_goes) {
  auto steps = this->captured({.capacities = {4, 8, 16}, .most_kept = 2, .eager_first = 0});
  auto const run = [&](std::int64_t count) {
    auto const batch = this->batch(count);
    auto const result = steps.run(count, [&](auto const& inputs) { this->fill(inputs, batch); });
    EXPECT_TRUE(same_bits(to_host(result), this->eager(batch))) << count;
  };
  run(4);
  run(8);
  run(4);
  run(16);  // that for 8 goes
  EXPECT_EQ(steps.counts().evictions, 1U);
  run(4);
  EXPECT_EQ(steps.counts().captures, 3U) << "that for 4 is still there";
  run(8);
  EXPECT_EQ(steps.counts().captures, 4U);
  EXPECT_EQ(steps.counts().evictions, 2U);
  EXPECT_THAT(this->lines_.at(2), HasSubstr("the step for up to 8 goes"));
}

TYPED_TEST(CapturedStepsTest, what_throws_leaves_it_usable) {
  bool broken = true;
  CapturedSteps steps(
      this->device(),
      [this](std::int64_t capacity) { return Inputs<TypeParam>(this->device(), capacity); },
      [&](Inputs<TypeParam> const& inputs) {
        auto result = this->step(inputs);
        if (broken) {
          throw std::runtime_error("half of a step");
        }
        return result;
      },
      {.capacities = {8}, .eager_first = 0, .log = {}});
  auto const batch = this->batch(8);
  auto const run = [&] {
    return steps.run(8, [&](auto const& inputs) { this->fill(inputs, batch); });
  };
  EXPECT_THROW((void)run(), std::runtime_error);
  EXPECT_EQ(steps.counts().captures, 0U);
  broken = false;
  EXPECT_TRUE(same_bits(to_host(run()), this->eager(batch)));
  EXPECT_THROW((void)steps.run(8, [](auto const&) { throw std::logic_error("no batch"); }),
               std::logic_error);
  EXPECT_TRUE(same_bits(to_host(run()), this->eager(batch)));
  EXPECT_EQ(steps.counts().captures, 1U);
}

TYPED_TEST(CapturedStepsTest, what_may_not_be_captured_runs_eagerly_and_says_so) {
  std::vector<std::string> lines;
  CapturedSteps steps(
      this->device(),
      [this](std::int64_t capacity) { return Inputs<TypeParam>(this->device(), capacity); },
      [&](Inputs<TypeParam> const& inputs) {
        auto result = this->step(inputs);
        if (inputs.ids.count() > 8) {
          static_cast<void>(to_host(result));  // waits for the device
        }
        return result;
      },
      {.capacities = {8, 16}, .log = [&](std::string const& line) { lines.push_back(line); }});
  for (auto const count : {16, 16, 16, 8, 8, 8, 16}) {
    auto const batch = this->batch(count);
    auto const result = steps.run(count, [&](auto const& inputs) { this->fill(inputs, batch); });
    EXPECT_TRUE(same_bits(to_host(result), this->eager(batch)));
  }
  EXPECT_EQ(steps.counts().not_captured, 3U);
  EXPECT_EQ(steps.counts().eager_first, 2U);
  EXPECT_EQ(steps.counts().captures, 1U) << "the other capacity's";
  EXPECT_EQ(steps.counts().replays, 2U);
  EXPECT_THAT(lines,
              ::testing::ElementsAre(::testing::AllOf(HasSubstr("up to 16 run eagerly"),
                                                      HasSubstr("since the host waits for memory")),
                                     HasSubstr("captured for up to 8")));
}

TYPED_TEST(CapturedStepsTest, refuses_options_that_make_no_sense) {
  expect_refused([&] { (void)this->captured({.capacities = {8, 8}}); }, "capacity of 8 after 8");
  expect_refused([&] { (void)this->captured({.capacities = {0}}); }, "capacity of 0");
  expect_refused([&] { (void)this->captured({.capacities = {8}, .most_kept = 0}); }, "most_kept");
  expect_refused([&] { (void)this->captured({.capacities = {8}, .eager_first = -1}); },
                 "eager_first is -1");
  auto steps = this->captured({.capacities = {8}});
  expect_refused([&] { (void)steps.run(-1, [](auto const&) {}); }, "a batch of -1");
}

}  // namespace
}  // namespace msstream::testing
