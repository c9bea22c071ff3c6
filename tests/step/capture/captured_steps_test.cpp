// SPDX-License-Identifier: Apache-2.0
#include "step/capture/captured_fixture.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/step/captured_step.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kBags = 6;
constexpr std::int64_t kRows = 40;
constexpr std::int64_t kWidth = 3;

/// The inputs of a captured step: jagged bags of up to `capacity` ids.
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

  /// Returns a batch of random ids in bags of random lengths.
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
  using Steps = CapturedSteps<R, Inputs<R>, Floats32>;
  Steps captured(typename Steps::Options options) {
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
  run(16);  // evicts the step for 8
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
          static_cast<void>(to_host(result));  // waits for the device, which a capture refuses
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
              ::testing::ElementsAre(
                  ::testing::AllOf(HasSubstr("up to 16 run eagerly"),
                                   HasSubstr("since to_host: the host waits for memory")),
                  HasSubstr("captured for up to 8")));
}

/// Makes the cache `steps` capture a step for 4 rows and then one for 8.
template <class Steps, class Run>
void keep_two(Steps& steps, Run& run) {
  run(4);
  run(8);
  ASSERT_EQ(steps.counts().captures, 2U);
}

TYPED_TEST(CapturedStepsTest, what_finds_no_memory_is_tried_again_without_the_oldest_other_step) {
  for (std::string_view const where : {"making", "filling", "capture"}) {
    int refusals = 0;
    auto const refuse = [&](std::string_view here) {
      if (here == where && refusals > 0) {
        --refusals;
        throw OutOfMemory(1, "no memory\nin use: all");
      }
    };
    std::vector<std::string> lines;
    CapturedSteps steps(
        this->device(),
        [&](std::int64_t capacity) {
          refuse("making");
          return Inputs<TypeParam>(this->device(), capacity);
        },
        [&](Inputs<TypeParam> const& inputs) {
          auto result = this->step(inputs);
          refuse("capture");
          return result;
        },
        {.capacities = {4, 8, 16, 32}, .eager_first = 0, .log = [&](std::string const& line) {
           lines.push_back(line);
         }});
    auto const run = [&](std::int64_t count) {
      auto const batch = this->batch(count);
      auto const result = steps.run(count, [&](auto const& inputs) {
        this->fill(inputs, batch);
        refuse("filling");
      });
      EXPECT_TRUE(same_bits(to_host(result), this->eager(batch))) << count;
    };
    keep_two(steps, run);
    refusals = 1;
    run(16);  // evicts the step for 4
    EXPECT_EQ(steps.counts().evictions, 1U) << where;
    EXPECT_THAT(lines.at(2), HasSubstr("up to 4 goes, the least recently used, since no memory,"));
    EXPECT_EQ(steps.counts().captures, 3U);
    refusals = 4;  // one more than there are other steps, and one for the eager run
    EXPECT_THROW(run(32), OutOfMemory) << where;
    EXPECT_EQ(steps.counts().evictions, 3U) << "all the others";
    refusals = 0;
    run(32);
    EXPECT_EQ(steps.counts().captures, 4U) << "nothing stays eager: " << where;
    EXPECT_EQ(steps.counts().not_captured, 0U);
  }
}

TYPED_TEST(CapturedStepsTest, an_eager_step_is_tried_again_only_if_it_issued_nothing) {
  bool refuses_first = false;
  bool refuses_last = false;
  int calls = 0;
  CapturedSteps steps(
      this->device(),
      [&](std::int64_t capacity) { return Inputs<TypeParam>(this->device(), capacity); },
      [&](Inputs<TypeParam> const& inputs) {
        ++calls;
        if (std::exchange(refuses_first, false)) {
          throw OutOfMemory(1, "no memory");
        }
        auto result = this->step(inputs);
        if (std::exchange(refuses_last, false)) {
          throw OutOfMemory(1, "no memory");
        }
        return result;
      },
      {.capacities = {4, 8, 16}, .log = {}});
  auto const run = [&](std::int64_t count) {
    auto const batch = this->batch(count);
    auto const result = steps.run(count, [&](auto const& inputs) { this->fill(inputs, batch); });
    EXPECT_TRUE(same_bits(to_host(result), this->eager(batch))) << count;
  };
  for (auto const count : {4, 4, 8, 8}) {
    run(count);
  }
  calls = 0;
  refuses_first = true;
  run(16);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(steps.counts().evictions, 1U);
  calls = 0;
  refuses_last = true;
  EXPECT_THROW(run(100), OutOfMemory);
  EXPECT_EQ(calls, 1) << "what it issued has happened";
  EXPECT_EQ(steps.counts().evictions, 2U) << "for the next batch";
  run(100);
  run(16);
  EXPECT_EQ(steps.counts().captures, 3U);
  EXPECT_EQ(steps.counts().evictions, 2U);
}

TYPED_TEST(CapturedStepsTest, steps_that_go_and_come_again_are_told_ever_less_often) {
  auto steps = this->captured({.capacities = {4, 8}, .most_kept = 1, .eager_first = 0});
  for (int i = 0; i < 20; ++i) {
    auto const batch = this->batch(i % 2 == 0 ? 4 : 8);
    (void)steps.run(i % 2 == 0 ? 4 : 8, [&](auto const& inputs) { this->fill(inputs, batch); });
  }
  EXPECT_EQ(steps.counts().evictions, 19U);
  auto const lines_with = [&](std::string_view what) {
    return std::ranges::count_if(
        this->lines_, [&](auto const& line) { return line.find(what) != std::string::npos; });
  };
  EXPECT_EQ(lines_with(" goes, "), 5) << "the 1st, 2nd, 4th, 8th and 16th";
  EXPECT_EQ(lines_with("captured for up to 4, "), 4) << "of 10";
}

/// A fixture for captured steps that take much memory: inputs of `capacity` MiB, and two tensors of
/// that size inside the step.
template <class R>
class LargeCapturedSteps : public RuntimeTest<R> {
 protected:
  using Bytes = Tensor<std::uint8_t, R>;

  /// Returns a device whose allocations fail at once where they would have to wait for memory in
  /// use.
  static Device<R> device_of(std::int64_t limit) {
    return Device<R>({.memory = {.limit_bytes = static_cast<std::size_t>(limit * kMiB),
                                 .wait_for_frees = std::chrono::milliseconds(0)}});
  }
  using Steps = CapturedSteps<R, Bytes, Bytes>;
  static Steps captured(Device<R> const& device, typename Steps::Options options) {
    return {device,
            [device](std::int64_t capacity) { return Bytes(device, {capacity * kMiB}); },
            [device](Bytes const& input) {
              Bytes const result(device, {1});
              Bytes last = input;
              for (int i = 0; i < 4; ++i) {
                Bytes const next(device, input.shape());
                copy(next, last);
                last = next;
              }
              copy(result, last.rows(0, 1));
              return result;
            },
            std::move(options)};
  }
  static Bytes run(CapturedSteps<R, Bytes, Bytes>& steps, std::int64_t count, int value) {
    return steps.run(
        count, [&](Bytes const& input) { fill_bytes(input, static_cast<std::uint8_t>(value)); });
  }
};
TYPED_TEST_SUITE(LargeCapturedSteps, PlainRuntimes, RuntimeNames);

TYPED_TEST(LargeCapturedSteps, those_that_do_not_fit_together_take_turns) {
  auto const device = this->device_of(200);
  std::vector<std::int64_t> const capacities{9, 10, 11, 12, 13, 14, 15, 16};
  std::vector<std::string> lines;
  auto steps = this->captured(
      device,
      {.capacities = capacities, .log = [&](std::string const& line) { lines.push_back(line); }});
  for (int i = 0; i < 48; ++i) {
    auto const count = capacities[static_cast<std::size_t>(i * 5 % 8)];
    ASSERT_EQ(to_host(this->run(steps, count, i)).front(), i) << "batch " << i;
  }
  EXPECT_EQ(steps.counts().eager_first, 8U);
  EXPECT_EQ(steps.counts().not_captured, 0U);
  EXPECT_EQ(steps.counts().replays, 40U);
  EXPECT_GE(steps.counts().captures, 8U);
  EXPECT_GE(steps.counts().evictions, 5U);
  EXPECT_THAT(lines, Contains(HasSubstr("goes, the least recently used, since ")));
}

TYPED_TEST(LargeCapturedSteps, one_goes_before_the_inputs_of_the_next_are_made) {
  auto const device = this->device_of(64);
  std::vector<std::string> lines;
  auto steps = this->captured(
      device,
      {.capacities = {16, 17}, .most_kept = 1, .eager_first = 0, .log = [&](auto const& line) {
         lines.push_back(line);
       }});
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(to_host(this->run(steps, 16 + i % 2, i)).front(), i);
  }
  EXPECT_EQ(steps.counts().captures, 6U);
  EXPECT_EQ(steps.counts().evictions, 5U);
  EXPECT_THAT(lines, Not(Contains(HasSubstr("since")))) << "none for lack of memory";
}

class LargeCapturedStepsOnHost : public LargeCapturedSteps<Host> {};

TEST_F(LargeCapturedStepsOnHost, a_step_that_goes_is_waited_for_where_its_memory_is_needed) {
  auto const device = device_of(56);
  Gate gate;
  auto steps = captured(
      device, {.capacities = {9, 12}, .eager_first = 0, .log = [&](std::string const& line) {
                 if (line.find("goes, the least recently used, since") != std::string::npos) {
                   gate.open();
                 }
               }});
  EXPECT_EQ(to_host(run(steps, 9, 1)).front(), 1);
  // The queue of the stream group is [wait for the test's gate, fill, replay of step 9, fill,
  // replay of step 12].
  gate.hold(device.default_group().compute());
  auto const first = run(steps, 9, 2);
  auto const second = run(steps, 12, 3);
  EXPECT_EQ(to_host(first).front(), 2);
  EXPECT_EQ(to_host(second).front(), 3);
  EXPECT_EQ(steps.counts().captures, 2U);
  EXPECT_EQ(steps.counts().evictions, 1U);
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
