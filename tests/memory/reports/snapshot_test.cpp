// SPDX-License-Identifier: Apache-2.0
#include "memory/device/device_state.hpp"
#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/tensor.hpp>
#include <msstream/trace/name_scope.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Bytes = Tensor<std::uint8_t, Host>;
using Kind = MemorySnapshot::Event::Kind;
using State = MemorySnapshot::Range::State;

[[nodiscard]] Device<Host> recording_device(std::size_t events) {
  return Device<Host>(
      {.memory = {.limit_bytes = std::size_t{64} << 20U, .history_events = events}});
}
[[nodiscard]] std::vector<Kind> kinds(MemorySnapshot const& snapshot) {
  std::vector<Kind> kinds;
  for (auto const& event : snapshot.events) {
    kinds.push_back(event.kind);
  }
  return kinds;
}

TEST(MemorySnapshotTest, has_each_range_with_its_owner) {
  auto const device = recording_device(0);
  StreamPool pool(device, {.groups = 2, .launch_threads = LaunchThreads::none});
  StreamScope const scope(pool[1]);
  NameScope const name("tower \"1\"");
  Bytes const large(device, {16 * kMiB});
  Bytes const small(device, {1000});
  { Bytes const cached(device, {5000}); }
  { Bytes const free(device, {8 * kMiB}); }
  auto const snapshot = device.memory_snapshot();
  std::uintptr_t end = 0;
  std::vector<State> states;
  for (auto const& range : snapshot.ranges) {
    EXPECT_GE(range.address, end) << "by address, and apart";
    end = range.address + range.bytes;
    states.push_back(range.state);
    if (range.state == State::in_use) {
      EXPECT_EQ(range.scope, "tower \"1\"");
      EXPECT_EQ(range.stream, "group 1 compute");
    }
  }
  EXPECT_EQ(std::count(states.begin(), states.end(), State::in_use), 2);
  EXPECT_EQ(std::count(states.begin(), states.end(), State::cached), 1);
  EXPECT_GE(std::count(states.begin(), states.end(), State::free), 1);
  EXPECT_THAT(snapshot.events, IsEmpty());
  EXPECT_THAT(snapshot.json(), HasSubstr(R"("scope": "tower \"1\"", "stream": "group 1 compute")"));
}

TEST(MemorySnapshotTest, tells_what_happened_in_order) {
  auto const device = recording_device(100);
  {
    NameScope const name("layer");
    Bytes const tensor(device, {16 * kMiB});
  }
  EXPECT_THROW(Bytes(device, {65 * kMiB}), OutOfMemory);
  device.state()->memory.return_cached_memory();
  auto const snapshot = device.memory_snapshot();
  EXPECT_THAT(kinds(snapshot),
              ElementsAre(Kind::grow, Kind::take, Kind::give_back, Kind::refuse, Kind::release));
  EXPECT_EQ(*snapshot.events[1].scope, "layer");
  EXPECT_EQ(snapshot.events[1].bytes, 16U * kMiB);
  EXPECT_EQ(snapshot.events[1].address, snapshot.events[2].address);
  EXPECT_TRUE(std::is_sorted(
      snapshot.events.begin(), snapshot.events.end(), [](auto const& a, auto const& b) {
        return a.nanoseconds < b.nanoseconds;
      }));
}

TEST(MemorySnapshotTest, counts_by_stream_who_reused_and_stole_and_waited) {
  Device<Host> const device(
      {.memory = {.limit_bytes = 2U * kMiB, .max_growth_bytes = 2U * kMiB, .history_events = 100}});
  StreamPool pool(device, {.groups = 2, .launch_threads = LaunchThreads::none});
  auto const fill_one = [&](int group, char const* scope_name) {
    StreamScope const scope(pool[group]);
    NameScope const name(scope_name);
    Bytes const tensor(device, {2 * kMiB});
    fill_bytes(tensor, 1);
  };
  Gate gate;
  fill_one(0, "fresh");
  gate.hold(pool[0].compute());
  fill_one(0, "own");
  fill_one(1, "other");
  gate.open();
  auto const snapshot = device.memory_snapshot();
  std::vector<std::string> counts;
  for (auto const& of : snapshot.by_stream) {
    counts.push_back(fmt::format("{}: {} allocations, {} reuses, {} steals, {} wait, {} bytes",
                                 of.stream,
                                 of.allocations,
                                 of.reuses,
                                 of.steals,
                                 of.waiting_reuses,
                                 of.live_bytes));
  }
  EXPECT_THAT(counts,
              ElementsAre("group 0 compute: 2 allocations, 1 reuses, 0 steals, 0 wait, 0 bytes",
                          "group 1 compute: 1 allocations, 1 reuses, 1 steals, 1 wait, 0 bytes"));
  std::vector<std::string> waiting;
  for (auto const& event : snapshot.events) {
    if (event.waits) {
      waiting.push_back(*event.scope);
    }
  }
  EXPECT_THAT(waiting, ElementsAre("other"));
  EXPECT_EQ(device.memory_statistics().reuses, 2U);
  EXPECT_EQ(device.memory_statistics().steals, 1U);
  EXPECT_THAT(snapshot.json(), HasSubstr(R"("reuses": 1, "steals": 1, "waiting_reuses": 1})"));
  EXPECT_THAT(snapshot.json(), HasSubstr(R"("scope": "other", "waits": true})"));
}

TEST(MemorySnapshotTest, counts_small_blocks_too) {
  auto const device = recording_device(0);
  StreamPool pool(device, {.groups = 1, .launch_threads = LaunchThreads::none});
  StreamScope const scope(pool[0]);
  for (int i = 0; i < 3; ++i) {
    Bytes const tensor(device, {1000});
    fill_bytes(tensor, 1);
  }
  auto const counts = device.memory_by_stream();
  ASSERT_FALSE(counts.empty());
  EXPECT_EQ(counts.back().allocations, 3U);
  EXPECT_EQ(counts.back().reuses, 2U);
  EXPECT_EQ(counts.back().steals, 0U);
}

TEST(MemorySnapshotTest, keeps_the_last_events) {
  auto const device = recording_device(3);
  for (int i = 0; i < 5; ++i) {
    Bytes const tensor(device, {1000 * (i + 1)});
  }
  auto const snapshot = device.memory_snapshot();
  EXPECT_THAT(kinds(snapshot), ElementsAre(Kind::give_back, Kind::take, Kind::give_back));
}

}  // namespace
}  // namespace msstream::testing
