// SPDX-License-Identifier: Apache-2.0
#include "fake_cuda_fixture.hpp"

#include <msstream/memory/device.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

/// Tests of the CUDA calls of allocations and releases: none once the pool has the memory that the
/// program uses, except for an event and a query where only the device's progress determines
/// whether memory is free.
namespace fake_cuda {
namespace {

using MemoryBudget = FakeCudaTest;

TEST_F(MemoryBudget, taking_and_giving_back_asks_nothing) {
  Device const device;
  auto const take = [&] {
    for (std::int64_t count = 1; count <= 1 << 20; count *= 4) {
      Floats const tensor(device, {count});
    }
  };
  take();
  EXPECT_TRUE(within(calls_of([&] { repeat(100, take); }), Budget()));
}

TEST_F(MemoryBudget, memory_in_use_is_reused_on_its_stream_for_nothing) {
  Device const device;
  auto const step = [&] {
    Floats const tensor(device, {1024});
    write(device.default_group(), tensor);
  };
  step();
  BusyDevice const busy;
  EXPECT_TRUE(within(calls_of([&] { repeat(100, step); }), Budget().launches(100)));
}

TEST_F(MemoryBudget, each_group_reuses_its_own) {
  constexpr int kGroups = 8;
  Device const device;
  Pool const pool(device, {.groups = kGroups});
  auto const step = [&] {
    for (int i = 0; i < kGroups; ++i) {
      Scope const scope(pool[i]);
      Floats const tensor(device, {1024});
      write(pool[i], tensor);
    }
  };
  BusyDevice const busy;
  step();
  EXPECT_TRUE(within(calls_of([&] { repeat(20, step); }), Budget().launches(20 * kGroups)));
}

/// As long as there is fresh memory, an allocation does not query whether another group still uses
/// its memory.
TEST_F(MemoryBudget, memory_of_a_busy_group_costs_no_question) {
  Device const device;
  Pool const pool(device, {.groups = 2});
  auto const use_on = [&](int group) {
    Scope const scope(pool[group]);
    Floats const tensor(device, {1024});
    write(pool[group], tensor);
  };
  repeat(kWarmUp, [&] { use_on(0); });
  BusyDevice const busy;
  EXPECT_TRUE(within(calls_of([&] { use_on(1); }), Budget().launches(1)));
}

/// Memory that was last used by another group can be reused once that use is complete. The
/// allocation queries two events: that of the write and that of the read.
TEST_F(MemoryBudget, memory_that_another_group_read_is_reused_after_a_question) {
  constexpr int kSteps = 50;
  Device const device;
  Pool const pool(device, {.groups = 2});
  auto const step = [&] {
    std::optional<Floats> result;
    {
      Scope const scope(pool[0]);
      result.emplace(device, ms::Shape{1024});
      write(pool[0], *result);
    }
    read(pool[1], *result);
  };
  repeat(kWarmUp, step);
  EXPECT_TRUE(within(calls_of([&] { repeat(kSteps, step); }),
                     Budget()
                         .launches(2 * kSteps)
                         .at_most("cudaEventRecord", 2 * kSteps)
                         .at_most("cudaEventQuery", 2 * kSteps)
                         .at_most("cudaStreamWaitEvent", kSteps)));
}

TEST_F(MemoryBudget, a_full_pool_waits_on_the_device_and_not_on_the_host) {
  constexpr std::int64_t kCount = 1 << 20;
  Device const device(
      {.memory = {.limit_bytes = std::size_t{5} << 20U, .max_growth_bytes = 1 << 16}});
  Pool const pool(device, {.groups = 2});
  auto const use_on = [&](int group) {
    Scope const scope(pool[group]);
    Floats const tensor(device, {kCount});
    write(pool[group], tensor);
  };
  BusyDevice const busy;
  repeat(kWarmUp, [&] {
    use_on(0);
    use_on(1);
  });
  // An allocation queries the progress of both groups before one waits for the other. It may make
  // one more query if the pool has made none for a while.
  std::uint64_t fewest = 8;
  repeat(20, [&] {
    auto const counts = calls_of([&] {
      use_on(0);
      use_on(1);
    });
    EXPECT_TRUE(within(counts, Budget().launches(2).dependencies(2).at_most("cudaEventQuery", 8)));
    fewest = std::min(fewest, counts["cudaEventQuery"]);
  });
  EXPECT_LE(fewest, 6U);
}

TEST_F(MemoryBudget, pinned_memory_that_the_host_has_waited_for_asks_nothing) {
  Device const device;
  Floats const tensor(device, {1024});
  auto const stage = [&] {
    PinnedFloats const staged(device, 1024);
    ms::copy(tensor, staged);
    staged.wait();
  };
  repeat(kWarmUp, stage);
  BusyDevice const busy;
  EXPECT_TRUE(within(
      calls_of([&] { repeat(50, [&] { PinnedFloats const staged(device, 1024); }); }), Budget()));
}

/// The oldest staging buffer is queried first, because it is the likeliest to be free.
TEST_F(MemoryBudget, pinned_memory_whose_oldest_copy_is_over_asks_nothing) {
  constexpr int kInFlight = 20;
  Device const device;
  Floats const tensor(device, {1024});
  BusyDevice const busy;
  {
    std::vector<PinnedFloats> staged;
    repeat(kInFlight, [&] {
      staged.emplace_back(device, 1024);
      ms::copy(tensor, staged.back());
      if (staged.size() == 1) {
        staged.front().wait();
      }
    });
  }
  EXPECT_TRUE(within(calls_of([&] { PinnedFloats const another(device, 1024); }), Budget()));
}

/// Before a new staging buffer is allocated, the eight oldest ones are queried.
TEST_F(MemoryBudget, pinned_memory_in_flight_costs_a_few_questions) {
  constexpr int kInFlight = 20;
  constexpr int kAsked = 8;
  Device const device;
  Floats const tensor(device, {1024});
  BusyDevice const busy;
  {
    std::vector<PinnedFloats> staged;
    repeat(kInFlight, [&] {
      staged.emplace_back(device, 1024);
      ms::copy(tensor, staged.back());
    });
  }
  EXPECT_TRUE(within(calls_of([&] { PinnedFloats const another(device, 1024); }),
                     Budget()
                         .at_most("cudaEventQuery", kAsked)
                         .at_most("cudaEventRecord", kAsked)
                         .at_most("cudaEventCreateWithFlags", kAsked)));
}

}  // namespace
}  // namespace fake_cuda
