// SPDX-License-Identifier: Apache-2.0
#include "base/watchdog.hpp"
#include "faulty/world.hpp"
#include "memory/runtimes.hpp"

#include <msstream/base/error.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/trace/name_scope.hpp>

#include <fmt/core.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <class Inner>
class FaultyTest : public RuntimeTest<Inner> {
 protected:
  using R = Faulty<Inner>;

  void SetUp() override {
    RuntimeTest<Inner>::SetUp();
    if (!this->IsSkipped()) {
      runtime = std::make_shared<R>();
      plan = runtime->plan();
    }
  }
  /// Returns the code of the CudaError that `call` throws, or 0 if it throws none.
  template <class Call>
  static int code_of(Call&& call) {
    try {
      call();
    } catch (CudaError const& error) {
      return error.code();
    }
    return 0;
  }

  std::shared_ptr<R> runtime;
  std::shared_ptr<FaultPlan> plan;
};
TYPED_TEST_SUITE(FaultyTest, Runtimes, RuntimeNames);

TYPED_TEST(FaultyTest, fails_the_call_that_the_plan_names_and_no_other) {
  auto const stream = this->runtime->create_stream(StreamPriority::normal);
  auto const event = this->runtime->create_event(EventTiming::untimed);
  this->plan->fail(2, Fault::launch_failure);
  this->runtime->record(event, stream);
  EXPECT_EQ(this->code_of([&] { this->runtime->record(event, stream); }), 719);
  EXPECT_EQ(this->code_of([&] { this->runtime->record(event, stream); }), 0);
  this->plan->fail(RuntimeCall::synchronize, 1, Fault::out_of_memory);
  this->runtime->record(event, stream);
  EXPECT_EQ(this->code_of([&] { this->runtime->synchronize(event); }), 2);
  EXPECT_EQ(to_string(*this->plan->failed()), "call 2: synchronize");
  EXPECT_EQ(this->plan->call_count(), 2U);
  this->runtime->destroy_event(event);
  this->runtime->destroy_stream(stream);
}

TYPED_TEST(FaultyTest, allocations_run_out_of_memory) {
  this->plan->fail(RuntimeCall::allocate_device, 1, Fault::out_of_memory);
  try {
    static_cast<void>(this->runtime->allocate_device(4096));
    FAIL() << "allocated";
  } catch (OutOfMemory const& error) {
    EXPECT_EQ(error.requested_bytes(), 4096U);
  }
  this->runtime->free_device(this->runtime->allocate_device(4096), 4096);
}

TYPED_TEST(FaultyTest, a_lost_device_fails_every_call_but_those_that_destroy) {
  auto const stream = this->runtime->create_stream(StreamPriority::normal);
  auto const event = this->runtime->create_event(EventTiming::untimed);
  this->plan->fail(1, Fault::sticky);
  EXPECT_EQ(this->code_of([&] { this->runtime->record(event, stream); }), 700);
  EXPECT_EQ(this->code_of([&] { this->runtime->synchronize_stream(stream); }), 700);
  EXPECT_EQ(this->code_of([&] { this->runtime->allocate_pinned(8); }), 700);
  EXPECT_TRUE(this->plan->lost());
  EXPECT_EQ(this->plan->failed()->number, 1U);
  this->runtime->destroy_event(event);
  this->runtime->destroy_stream(stream);
  this->plan->reset();
  EXPECT_EQ(this->code_of([&] { static_cast<void>(this->runtime->memory_info()); }), 0);
}

TYPED_TEST(FaultyTest, the_work_of_a_lost_device_is_over_when_a_call_fails) {
  std::atomic<int> ran{0};
  auto const gone = this->runtime->create_stream(StreamPriority::normal);
  auto const stream = this->runtime->create_stream(StreamPriority::normal);
  for (int i = 0; i < 100; ++i) {
    this->runtime->call_host(gone, [&] { ++ran; });
    this->runtime->call_host(stream, [&] { ++ran; });
  }
  this->runtime->destroy_stream(gone);
  this->plan->fail(1, Fault::sticky);
  EXPECT_EQ(this->code_of([&] { static_cast<void>(this->runtime->memory_info()); }), 700);
  EXPECT_EQ(ran.load(), 200);
  this->runtime->destroy_stream(stream);
}

TYPED_TEST(FaultyTest, a_launch_is_a_call_that_names_its_operation) {
  DeviceOptions<Faulty<TypeParam>> options;
  options.runtime.plan = this->plan;
  Device<Faulty<TypeParam>> const device(options);
  NameScope const scope("tower");
  Tensor<float, Faulty<TypeParam>> const x(device, {4});
  this->plan->fail(RuntimeCall::launch, 1, Fault::launch_failure);
  bool called = false;
  EXPECT_THROW(issue("op", writes(x), [&](auto) { called = true; }), CudaError);
  EXPECT_FALSE(called);
  EXPECT_EQ(this->plan->failed()->operation, "tower/op");
  fill_bytes(x, 0);
  auto const calls = this->plan->calls();
  EXPECT_EQ(to_string(calls.back()), fmt::format("call {}: fill of 'tower/fill'", calls.size()));
}

TEST(FaultPlanTest, counts_from_one) {
  FaultPlan plan;
  EXPECT_THROW(plan.fail(0, Fault::sticky), std::invalid_argument);
  EXPECT_THROW(plan.fail(RuntimeCall::wait, 0, Fault::sticky), std::invalid_argument);
}

TEST(CountingTest, shows_what_was_not_given_back) {
  CountingOptions<Host> const options;
  Counting<Host> runtime(options);
  auto const event = runtime.create_event(EventTiming::untimed);
  auto* const memory = runtime.allocate_device(512);
  EXPECT_THAT(to_string(*options.census),
              AllOf(HasSubstr("1 events"),
                    HasSubstr("1 device blocks and 0 bytes of pages with 512 bytes")));
  runtime.free_device(memory, 512);
  runtime.destroy_event(event);
  EXPECT_EQ(to_string(*options.census), Census::nothing());
}

TEST(CountingTest, follows_pages_and_remembers_what_was_asked_for) {
  CountingOptions<Host> const options;
  auto const& census = *options.census;
  Counting<Host> runtime(options);
  auto const page = runtime.page_bytes();
  ASSERT_GT(page, 0U);
  auto* const addresses = static_cast<std::byte*>(runtime.reserve_addresses(3 * page));
  runtime.map_pages(addresses, 2 * page);
  runtime.move_pages(addresses + 2 * page, addresses, page);
  runtime.leave_pages(addresses, page);
  EXPECT_EQ(census.mapped_bytes, 2 * page) << "moved, not given back";
  auto* const block = runtime.allocate_device(512);
  EXPECT_EQ(census.device_bytes, 2 * page + 512);
  runtime.free_device(block, 512);
  runtime.unmap_pages(addresses + page, 2 * page);
  EXPECT_THAT(to_string(census), HasSubstr(fmt::format("{} bytes of addresses", 3 * page)));
  runtime.release_addresses(addresses, 3 * page);
  EXPECT_EQ(to_string(census), Census::nothing());
  EXPECT_EQ(census.most_device_bytes, 2 * page + 512);
  EXPECT_THAT(census.growths(), ::testing::ElementsAre(2 * page, 512U));
  EXPECT_EQ(census.calls, 8U);
}

TEST(WatchdogTest, barks_at_what_hangs) {
  std::promise<void> barked;
  Watchdog const watchdog([] { return std::string("this test, on purpose"); },
                          std::chrono::milliseconds(0),
                          [&] { barked.set_value(); });
  barked.get_future().wait();
}

}  // namespace
}  // namespace msstream::testing
