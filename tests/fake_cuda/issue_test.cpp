// SPDX-License-Identifier: Apache-2.0
#include "fake_cuda_fixture.hpp"

#include <msstream/memory/device.hpp>

#include <vector>

/// Tests of the CUDA calls of issue(), apart from the kernel launch itself: one event and one wait
/// for each dependency between streams that no earlier wait covers, and otherwise none.
namespace fake_cuda {
namespace {

using IssueBudget = FakeCudaTest;

TEST_F(IssueBudget, one_stream_is_launches_alone) {
  Device const device;
  Floats const tensor(device, {1024});
  write(device.default_group(), tensor);
  EXPECT_TRUE(
      within(calls_of([&] { write(device.default_group(), tensor); }), Budget().launches(1)));
  EXPECT_TRUE(
      within(calls_of([&] { repeat(1000, [&] { write(device.default_group(), tensor); }); }),
             Budget().launches(1000)));
}

TEST_F(IssueBudget, many_inputs_on_one_stream_are_one_launch) {
  Device const device;
  std::vector<Floats> inputs;
  repeat(32, [&] { inputs.emplace_back(device, ms::Shape{16}); });
  Floats const output(device, {16});
  auto const step = [&] {
    ms::issue("many", ms::reads(inputs), ms::writes(output), one_kernel(output));
  };
  step();
  EXPECT_TRUE(within(calls_of(step), Budget().launches(1)));
}

// Two groups write one tensor alternately: group 0 = [write, write, …], group 1 = [write, write,
// …].
TEST_F(IssueBudget, ping_pong_is_one_event_and_one_wait_a_turn) {
  Device const device;
  Pool const pool(device, {.groups = 2});
  Floats const ball(device, {1024});
  auto const turns = [&] {
    write(pool[0], ball);
    write(pool[1], ball);
  };
  repeat(kWarmUp, turns);
  EXPECT_TRUE(within(calls_of(turns), Budget().launches(2).dependencies(2)));
  EXPECT_TRUE(
      within(calls_of([&] { repeat(100, turns); }), Budget().launches(200).dependencies(200)));
}

// One group writes a tensor that another one reads repeatedly: group 0 = [write], group 1 = [read,
// read, …].
TEST_F(IssueBudget, a_second_read_on_the_same_group_does_not_wait) {
  Device const device;
  Pool const pool(device, {.groups = 2});
  Floats const tensor(device, {1024});
  repeat(kWarmUp, [&] {
    write(pool[0], tensor);
    read(pool[1], tensor);
  });
  EXPECT_TRUE(
      within(calls_of([&] { repeat(50, [&] { read(pool[1], tensor); }); }), Budget().launches(50)));
}

// The wait for tensor b also covers tensor a: group 0 = [write a], group 1 = [read a, write b],
// group 2 = [read b, read a].
TEST_F(IssueBudget, a_wait_covers_what_its_event_followed) {
  Device const device;
  Pool const pool(device, {.groups = 3});
  Floats const a(device, {64});
  Floats const b(device, {64});
  auto const chain = [&] {
    write(pool[0], a);
    Scope const scope(pool[1]);
    ms::issue("a to b", ms::reads(a), ms::writes(b), one_kernel(b));
  };
  auto const use_both = [&] {
    Scope const scope(pool[2]);
    ms::issue("use", ms::reads(b), one_kernel(b));
    ms::issue("use", ms::reads(a), one_kernel(a));
  };
  auto const use_at_once = [&] {
    Scope const scope(pool[2]);
    ms::issue("use", ms::reads(a, b), one_kernel(b));
  };
  repeat(kWarmUp, [&] {
    chain();
    use_both();
  });
  chain();
  EXPECT_TRUE(within(calls_of(use_both), Budget().launches(2).dependencies(1)));
  chain();
  EXPECT_TRUE(within(calls_of(use_at_once), Budget().launches(1).dependencies(1)));
}

// One group writes a tensor that seven others read: group 0 = [write], groups 1 to 7 = [read].
TEST_F(IssueBudget, many_readers_share_the_writers_event) {
  constexpr int kGroups = 8;
  Device const device;
  Pool const pool(device, {.groups = kGroups});
  Floats const tensor(device, {1024});
  auto const readers = [&] {
    for (int i = 0; i < kGroups; ++i) {
      read(pool[i], tensor);
    }
  };
  repeat(kWarmUp, [&] {
    write(pool[0], tensor);
    readers();
  });
  write(pool[0], tensor);
  EXPECT_TRUE(within(calls_of(readers),
                     Budget()
                         .launches(kGroups)
                         .exactly("cudaEventRecord", 1)
                         .exactly("cudaStreamWaitEvent", kGroups - 1)));
}

// Seven groups write a tensor each, and one group reads all of them: groups 1 to 7 = [write], group
// 0 = [read all].
TEST_F(IssueBudget, a_join_is_one_event_and_one_wait_a_branch) {
  constexpr int kGroups = 8;
  Device const device;
  Pool const pool(device, {.groups = kGroups});
  std::vector<Floats> branches;
  repeat(kGroups, [&] { branches.emplace_back(device, ms::Shape{64}); });
  auto const fork = [&] {
    for (int i = 0; i < kGroups; ++i) {
      write(pool[i], branches[static_cast<std::size_t>(i)]);
    }
  };
  auto const join = [&] {
    Scope const scope(pool[0]);
    ms::issue("join", ms::reads(branches), one_kernel(branches.front()));
  };
  repeat(kWarmUp, [&] {
    fork();
    join();
  });
  fork();
  EXPECT_TRUE(within(calls_of(join), Budget().launches(1).dependencies(kGroups - 1)));
}

// No group needs to wait for work that the host has seen complete.
TEST_F(IssueBudget, what_the_host_has_waited_for_is_not_waited_for_again) {
  Device const device;
  Pool pool(device, {.groups = 2});
  Floats const tensor(device, {64});
  write(pool[0], tensor);
  pool.synchronize();
  EXPECT_TRUE(within(calls_of([&] { write(pool[1], tensor); }), Budget().launches(1)));
}

TEST_F(IssueBudget, frozen_tensors_are_read_by_all_groups_for_nothing) {
  Device const device;
  Pool const pool(device, {.groups = 8});
  Floats weights(device, {1024});
  write(pool[0], weights);
  weights.freeze();
  EXPECT_TRUE(within(calls_of([&] {
                       for (int i = 0; i < 8; ++i) {
                         read(pool[i], weights);
                       }
                     }),
                     Budget().launches(8)));
}

/// Work without dependencies makes no calls other than launches, regardless of the number of
/// groups.
TEST_F(IssueBudget, unrelated_work_on_many_groups_is_launches_alone) {
  Device const device;
  Pool const pool(device, {.groups = 16});
  std::vector<Floats> own;
  repeat(16, [&] { own.emplace_back(device, ms::Shape{64}); });
  auto const all = [&] {
    for (int i = 0; i < 16; ++i) {
      write(pool[i], own[static_cast<std::size_t>(i)]);
    }
  };
  all();
  EXPECT_TRUE(within(calls_of(all), Budget().launches(16)));
}

}  // namespace
}  // namespace fake_cuda
