// SPDX-License-Identifier: Apache-2.0
#include "step/capture/captured_fixture.hpp"

#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/record_step.hpp>

#include <fmt/core.h>

#include <chrono>
#include <thread>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class R>
class RecordStepTest : public OpsTest<R> {
 protected:
  using Floats32 = Tensor<float, R>;
  [[nodiscard]] Floats32 fresh() const { return Floats32(this->device(), {100}); }
};
TYPED_TEST_SUITE(RecordStepTest, Runtimes, RuntimeNames);

std::vector<std::string> names(StepTrace const& trace) {
  std::vector<std::string> out;
  for (auto const& operation : trace.operations()) {
    out.push_back(operation.name);
  }
  return out;
}

TYPED_TEST(RecordStepTest, has_what_was_issued_with_its_groups_and_dependencies) {
  StreamPool pool(this->device(), {.groups = 2});
  auto const x = this->put(std::vector<float>(100, 1.0F));
  auto const trace = record_step(this->device(), [&] {
    NameScope const model("model");
    auto const left = ops::scale(x, 2.0F);
    StreamScope const scope(pool[1]);
    auto const right = ops::sigmoid(x);
    auto const sum = ops::add(std::vector{left, right});
    static_cast<void>(to_host(sum));
  });
  EXPECT_THAT(names(trace),
              ElementsAre("model/scale", "model/sigmoid", "model/add", "model/copy_d2h"));
  auto const& operations = trace.operations();
  EXPECT_THAT(operations[0].after, IsEmpty()) << "x was there before";
  EXPECT_THAT(operations[1].after, IsEmpty());
  EXPECT_THAT(operations[2].after, ElementsAre(0, 1));
  EXPECT_THAT(operations[3].after, ElementsAre(2));
  EXPECT_EQ(operations[0].reads, operations[1].reads);
  EXPECT_NE(operations[0].writes, operations[1].writes);
  EXPECT_GE(trace.memory_bytes()[operations[0].reads[0]], 400U);
  EXPECT_EQ(trace.group_of(0), -1);
  EXPECT_EQ(trace.group_of(1), 1);
  EXPECT_EQ(trace.streams()[operations[3].stream].name, "group 1 d2h");
  EXPECT_EQ(operations[3].kind, StreamKind::d2h);
  EXPECT_EQ(operations[2].kind, StreamKind::compute);
  // One wait is for the default group, before `add`, and one is for the compute stream, before the
  // copy. Waits for earlier work are elided.
  EXPECT_EQ(trace.waits().issued, 2U);
  EXPECT_EQ(trace.waits().issued + trace.waits().elided, trace.waits().needed);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    for (auto const earlier : operations[i].after) {
      EXPECT_LE(operations[earlier].end_ns, operations[i].begin_ns + 1) << i;
    }
  }
  EXPECT_EQ(StepTrace::from_json(trace.json(), "file"), trace);
}

TYPED_TEST(RecordStepTest, tells_what_launching_took_the_host) {
  using Clock = std::chrono::steady_clock;
  auto const x = this->fresh();
  constexpr std::chrono::microseconds kLong{300};
  auto const before = Clock::now();
  auto const trace = record_step(this->device(), [&] {
    issue("long", writes(x), [&](auto) {
      for (auto const end = Clock::now() + kLong; Clock::now() < end;) {
      }
    });
  });
  using Nanoseconds = std::chrono::duration<double, std::nano>;
  ASSERT_EQ(trace.operations().size(), 1U);
  EXPECT_GE(trace.operations()[0].launch_ns, Nanoseconds(kLong).count());
  EXPECT_LE(trace.operations()[0].launch_ns, Nanoseconds(Clock::now() - before).count());
}

TYPED_TEST(RecordStepTest, reuse_of_memory_adds_no_dependency) {
  auto const step = [&] {
    for (int i = 0; i < 20; ++i) {
      auto const made = this->fresh();  // released at once: the next one would get the memory
      issue("write", writes(made), [](auto) {});
    }
  };
  step();
  auto const trace = record_step(this->device(), step);
  ASSERT_EQ(trace.operations().size(), 20U);
  EXPECT_EQ(trace.memory_bytes().size(), 20U);
  for (auto const& operation : trace.operations()) {
    EXPECT_THAT(operation.after, IsEmpty());
  }
  auto const before = this->device().memory_statistics().live_bytes;
  { auto const again = record_step(this->device(), step); }
  EXPECT_EQ(this->device().memory_statistics().live_bytes, before) << "nothing is kept";
}

TYPED_TEST(RecordStepTest, launch_threads_and_several_threads_are_recorded) {
  for (auto const launch : {LaunchThreads::none, LaunchThreads::shared, LaunchThreads::per_group}) {
    StreamPool pool(this->device(), {.groups = 3, .launch_threads = launch});
    auto const x = this->put(std::vector<float>(100, 1.0F));
    auto const trace = record_step(this->device(), [&] {
      std::vector<std::thread> threads;
      for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&, i] {
          NameScope const name(fmt::format("thread_{}", i));
          StreamScope const scope(pool[i]);
          auto y = x;
          for (int link = 0; link < 20; ++link) {
            y = ops::scale(y, 0.5F);
          }
        });
      }
      for (auto& thread : threads) {
        thread.join();
      }
    });
    ASSERT_EQ(trace.operations().size(), 60U);
    for (std::size_t i = 0; i < trace.operations().size(); ++i) {
      auto const& operation = trace.operations()[i];
      EXPECT_EQ(operation.name, fmt::format("thread_{}/scale", trace.group_of(i)));
      EXPECT_LE(operation.after.size(), 1U);
      for (auto const earlier : operation.after) {
        EXPECT_EQ(trace.operations()[earlier].name, operation.name);
      }
    }
    EXPECT_EQ(trace.waits().issued, 0U);
  }
}

TYPED_TEST(RecordStepTest, merged_groups_have_one_stream) {
  StreamPool pool(this->device(), {.groups = 2, .merge_streams = true});
  auto const trace = record_step(this->device(), [&] {
    StreamScope const scope(pool[1]);
    static_cast<void>(to_host(this->put(std::vector<float>(100, 1.0F))));
  });
  EXPECT_THAT(trace.streams(), ElementsAre(StepTrace::Stream{"group 1", 1, true}));
  EXPECT_THAT(names(trace), ElementsAre("copy_h2d", "copy_d2h"));
}

template <class R>
class RecordCapturedStepTest : public RecordStepTest<R> {};
TYPED_TEST_SUITE(RecordCapturedStepTest, PlainRuntimes, RuntimeNames);

TYPED_TEST(RecordCapturedStepTest, a_replay_is_one_operation_and_what_it_is_made_of_is_none) {
  auto const x = this->put(std::vector<float>(100, 1.0F));
  auto const y = this->fresh();
  std::optional<CapturedStep<TypeParam>> step;
  auto const trace = record_step(this->device(), [&] {
    step.emplace(this->device(), [&] { copy(y, ops::scale(x, 2.0F)); });
    auto const changed = ops::scale(x, 3.0F);
    copy(x, changed);
    step->replay();
    auto const result = ops::scale(y, 1.0F);
  });
  EXPECT_THAT(names(trace), ElementsAre("scale", "copy_d2d", "replay", "scale"));
  EXPECT_THAT(trace.operations()[2].after, ElementsAre(1));
  EXPECT_THAT(trace.operations()[3].after, ElementsAre(2));
}

TYPED_TEST(RecordStepTest, one_recording_at_a_time) {
  auto const nothing = [] {};
  auto const trace = record_step(this->device(), [&] {
    EXPECT_THAT(message_of<std::logic_error>(
                    [&] { static_cast<void>(record_step(this->device(), nothing)); }),
                HasSubstr("being recorded already"));
    issue("write", writes(this->fresh()), [](auto) {});
  });
  EXPECT_EQ(trace.operations().size(), 1U) << "which the refusal did not end";
  this->device().start_spans();
  EXPECT_THAT(message_of<std::logic_error>(
                  [&] { static_cast<void>(record_step(this->device(), nothing)); }),
              HasSubstr("spans of the device are being recorded"));
  EXPECT_THAT(this->device().stop_spans().spans(), IsEmpty());
}

TYPED_TEST(RecordCapturedStepTest, is_refused_in_a_capture) {
  auto const nothing = [] {};
  EXPECT_THAT(message_of<std::logic_error>([&] {
                CapturedStep const step(this->device(), [&] {
                  static_cast<void>(record_step(this->device(), nothing));
                });
              }),
              HasSubstr("inside a capture"));
}

TYPED_TEST(RecordStepTest, what_the_step_throws_ends_the_recording) {
  EXPECT_EQ(message_of<std::runtime_error>([&] {
              static_cast<void>(record_step(this->device(), [&] {
                issue("write", writes(this->fresh()), [](auto) {});
                throw std::runtime_error("of the step");
              }));
            }),
            "of the step");
  EXPECT_THAT(record_step(this->device(), [] {}).operations(), IsEmpty());
  EXPECT_EQ(message_of<std::runtime_error>([&] {
              static_cast<void>(record_step(this->device(), [&] {
                issue("write", writes(this->fresh()), [](auto) {
                  throw std::runtime_error("of the work");
                });
              }));
            }),
            "of the work");
  auto const trace = record_step(this->device(), [&] {
    EXPECT_THROW(issue("outer",
                       writes(this->fresh()),
                       [&](auto) { issue("inner", writes(this->fresh()), [](auto) {}); }),
                 std::logic_error)
        << "and no deadlock";
    issue("after", writes(this->fresh()), [](auto) {});
  });
  EXPECT_THAT(names(trace), ElementsAre("after"));
}

}  // namespace
}  // namespace msstream::testing
