// SPDX-License-Identifier: Apache-2.0
#include "stream/stream.hpp"

#include "fake_cuda_fixture.hpp"
#include "stream/stream_context.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/trace/name_scope.hpp>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

/// Tests of the CUDA calls of streams, events, StreamScopes, leases and TensorHolders.
namespace fake_cuda {
namespace {

using StreamBudget = FakeCudaTest;

TEST_F(StreamBudget, recording_is_one_record) {
  Device const device;
  auto const stream = device.default_group().compute();
  auto const record = [&] { static_cast<void>(stream.record()); };
  repeat(kWarmUp, record);
  EXPECT_TRUE(within(calls_of(record), Budget().exactly("cudaEventRecord", 1)));
}

/// If an event was requested for the newest work of a stream, record() returns that event and
/// records no second one.
TEST_F(StreamBudget, recording_is_one_record_where_an_event_is_wanted_too) {
  Device const device;
  auto const stream = device.default_group().compute();
  auto& tracker = *device.context()->tracker;
  BusyDevice const busy;
  auto const record_wanted = [&] {
    tracker.want_event(stream.engine().mark());
    static_cast<void>(stream.record());
  };
  repeat(kWarmUp, record_wanted);
  EXPECT_TRUE(within(calls_of(record_wanted), Budget().exactly("cudaEventRecord", 1)));
}

TEST_F(StreamBudget, waiting_is_one_wait_and_only_where_it_orders) {
  Device const device;
  Pool const pool(device, {.groups = 2});
  auto const event = pool[0].compute().record();
  EXPECT_TRUE(within(calls_of([&] { pool[0].compute().wait(event); }), Budget()));
  EXPECT_TRUE(within(calls_of([&] { pool[1].compute().wait(event); }),
                     Budget().exactly("cudaStreamWaitEvent", 1)));
  EXPECT_TRUE(within(calls_of([&] { pool[1].compute().wait(event); }), Budget()));
}

TEST_F(StreamBudget, asking_is_one_question_and_its_answer_saves_waits) {
  Device const device;
  Pool const pool(device, {.groups = 2});
  auto const event = pool[0].compute().record();
  EXPECT_TRUE(
      within(calls_of([&] { EXPECT_TRUE(event.query()); }), Budget().exactly("cudaEventQuery", 1)));
  EXPECT_TRUE(within(calls_of([&] { pool[1].compute().wait(event); }), Budget()));
}

TEST_F(StreamBudget, how_far_a_busy_stream_has_come_is_two_questions_at_most) {
  Device const device;
  auto const stream = device.default_group().compute();
  auto const look = [&] {
    device.context()->tracker->look_what_is_complete(stream.engine().slot());
  };
  BusyDevice const busy;
  EXPECT_TRUE(within(calls_of(look), Budget()));
  static_cast<void>(stream.record());
  EXPECT_TRUE(within(calls_of(look), Budget().exactly("cudaEventQuery", 1)));
  repeat(3, [&] { static_cast<void>(stream.record()); });
  // Queries the newest event, because it may cover all others, and the oldest one, because it is
  // the likeliest to be complete.
  EXPECT_TRUE(within(calls_of(look), Budget().exactly("cudaEventQuery", 2)));
}

TEST_F(StreamBudget, synchronising_is_one_event_and_never_the_stream) {
  Device const device;
  auto const stream = device.default_group().compute();
  repeat(kWarmUp, [&] { static_cast<void>(stream.record()); });
  EXPECT_TRUE(within(calls_of([&] { stream.synchronize(); }),
                     Budget().exactly("cudaEventRecord", 1).exactly("cudaEventSynchronize", 1)));
}

TEST_F(StreamBudget, entering_and_leaving_scopes_asks_nothing) {
  Device const device;
  Pool const pool(device, {.groups = 2});
  EXPECT_TRUE(within(calls_of([&] {
                       repeat(100, [&] {
                         Scope const outer(pool[0], {.include_grad = true});
                         ms::NameScope const name("branch");
                         Scope const inner(pool[1]);
                       });
                     }),
                     Budget()));
}

TEST_F(StreamBudget, leases_in_turn_ask_nothing) {
  Device const device;
  Pool pool(device, {.groups = 8});
  Floats const tensor(device, {64});
  write(pool[0], tensor);
  static_cast<void>(pool.acquire(ms::LeasePolicy::sticky));
  BusyDevice const busy;
  EXPECT_TRUE(within(calls_of([&] {
                       repeat(100, [&] {
                         auto const next = pool.acquire(ms::LeasePolicy::round_robin);
                         auto const same = pool.acquire(ms::LeasePolicy::sticky);
                       });
                     }),
                     Budget()));
}

TEST_F(StreamBudget, the_least_loaded_group_is_one_question_a_group_at_most) {
  constexpr int kGroups = 8;
  Device const device;
  Pool pool(device, {.groups = kGroups});
  BusyDevice const busy;
  for (int i = 0; i < kGroups; ++i) {
    static_cast<void>(pool[i].compute().record());
  }
  EXPECT_TRUE(within(calls_of([&] { static_cast<void>(pool.acquire()); }),
                     Budget().exactly("cudaEventQuery", kGroups)));
}

TEST_F(StreamBudget, publishing_is_one_record_and_saves_the_readers_one) {
  Device const device;
  Pool const pool(device, {.groups = 2});
  Floats const tensor(device, {64});
  repeat(kWarmUp, [&] {
    write(pool[0], tensor);
    read(pool[1], tensor);
  });
  write(pool[0], tensor);
  EXPECT_TRUE(
      within(calls_of([&] { ms::publish(tensor); }), Budget().exactly("cudaEventRecord", 1)));
  EXPECT_TRUE(within(calls_of([&] { ms::publish(tensor); }), Budget()));
  EXPECT_TRUE(within(calls_of([&] { read(pool[1], tensor); }),
                     Budget().launches(1).exactly("cudaStreamWaitEvent", 1)));
}

TEST_F(StreamBudget, a_holder_waits_once_and_lets_go_for_nothing) {
  Device const device;
  Pool const pool(device, {.groups = 2});
  Floats const tensor(device, {64});
  std::optional<ms::TensorHolder<ms::Cuda>> holder;
  repeat(kWarmUp, [&] {
    write(pool[0], tensor);
    read(pool[1], tensor);
  });
  write(pool[0], tensor);
  EXPECT_TRUE(within(calls_of([&] {
                       holder.emplace(pool[1].compute());
                       holder->hold(tensor);
                     }),
                     Budget().dependencies(1)));
  EXPECT_TRUE(within(calls_of([&] { holder->hold(tensor); }), Budget()));
  EXPECT_TRUE(within(calls_of([&] { holder.reset(); }), Budget()));
}

TEST_F(StreamBudget, handles_of_tensors_are_free) {
  Device const device;
  Floats const tensor(device, {64, 2});
  write(device.default_group(), tensor);
  BusyDevice const busy;
  EXPECT_TRUE(within(calls_of([&] {
                       auto const copied = tensor;
                       auto const view = copied.rows(1, 3).reshaped({4});
                       EXPECT_EQ(view.count(), 4);
                     }),
                     Budget()));
}

/// A group owns three streams and a workspace, which are destroyed with it, and a cuBLASLt handle,
/// which is kept for the next group: destroying a handle would wait for the whole device and end
/// the captures of other threads.
TEST_F(StreamBudget, a_group_is_three_streams_a_workspace_and_a_handle_that_is_kept) {
  Device const device;
  auto const before = live();
  {
    Pool const separate(device, {.groups = 2});
    EXPECT_EQ(live().streams, before.streams + 6);
    EXPECT_EQ(live().device_allocations, before.device_allocations + 2);
  }
  auto const again = calls_of([&] { Pool const second(device, {.groups = 2}); });
  EXPECT_EQ(again["cublasLtCreate"], 0U);
  EXPECT_EQ(again["cublasLtDestroy"], 0U);
  {
    Pool const merged(device, {.groups = 2, .merge_streams = true});
    EXPECT_EQ(live().streams, before.streams + 2);
  }
  EXPECT_EQ(live().streams, before.streams);
  EXPECT_EQ(live().device_allocations, before.device_allocations);
}

}  // namespace
}  // namespace fake_cuda
