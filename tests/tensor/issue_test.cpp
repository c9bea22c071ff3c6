// SPDX-License-Identifier: Apache-2.0
#include "memory/blocks/block.hpp"
#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>
#include <msstream/trace/name_scope.hpp>

#include <gmock/gmock.h>

#include <optional>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kAllLaunchThreads = {
    LaunchThreads::none, LaunchThreads::shared, LaunchThreads::per_group};

template <class R>
class Issue : public RuntimeTest<R> {};
TYPED_TEST_SUITE(Issue, Runtimes, RuntimeNames);

template <Runtime R, class Work>
void access(char const* name, AccessMode mode, Tensor<float, R> const& tensor, Work work) {
  if (mode == AccessMode::read) {
    issue(name, reads(tensor), work);
  } else {
    issue(name, writes(tensor), work);
  }
}

/// Returns a tensor whose first write is complete, so that later operations do not wait for the
/// write.
template <Runtime R>
[[nodiscard]] Tensor<float, R> settled_tensor(Device<R> const& device) {
  auto const tensor = zeros<float>(device, {16});
  device.default_group().synchronize();
  return tensor;
}

/// Returns the order in which two operations on one tensor run on two groups. The first one is held
/// until the second one has been issued and, if waits are ignored, has run.
template <Runtime R>
[[nodiscard]] Order order_of(AccessMode first, AccessMode second, LaunchThreads launch_threads) {
  Device<R> const device;
  StreamPool<R> pool(device, {.groups = 2, .launch_threads = launch_threads});
  auto const shared = settled_tensor(device);
  Journal journal;
  Gate gate;
  // The queue of stream group 0 is [wait for the test's gate, "first"]; that of stream group 1 is
  // [wait if needed, "second"].
  gate.hold(pool[0].compute());
  {
    StreamScope const scope(pool[0]);
    access("first", first, shared, journal.entry(device, "first"));
  }
  {
    StreamScope const scope(pool[1]);
    access("second", second, shared, journal.entry(device, "second"));
  }
  if constexpr (!keeps_waits<R>) {
    pool[1].synchronize();
  }
  gate.open();
  pool.synchronize();
  return journal.entries();
}

constexpr std::initializer_list<std::pair<AccessMode, AccessMode>> kHazards = {
    {AccessMode::write, AccessMode::read},
    {AccessMode::read, AccessMode::write},
    {AccessMode::write, AccessMode::write}};

TYPED_TEST(Issue, keeps_the_order_of_every_hazard) {
  for (auto const launch_threads : kAllLaunchThreads) {
    for (auto const& [first, second] : kHazards) {
      EXPECT_THAT(order_of<TypeParam>(first, second, launch_threads),
                  ElementsAre("first", "second"))
          << static_cast<int>(first) << " then " << static_cast<int>(second);
    }
  }
}

TEST(IssueWithoutWaits, every_hazard_is_a_race) {
  for (auto const launch_threads : kAllLaunchThreads) {
    for (auto const& [first, second] : kHazards) {
      EXPECT_THAT(order_of<HostWithoutWaits>(first, second, launch_threads),
                  ElementsAre("second", "first"))
          << static_cast<int>(first) << " then " << static_cast<int>(second);
    }
  }
}

TYPED_TEST(Issue, a_read_does_not_wait_for_a_read) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 2});
  auto const shared = settled_tensor(device);
  Gate gate;
  gate.hold(pool[0].compute());
  {
    StreamScope const scope(pool[0]);
    issue("first", reads(shared), [](auto) {});
  }
  StreamScope const scope(pool[1]);
  issue("second", reads(shared), [](auto) {});
  EXPECT_EQ(device.wait_counts().issued, 0U);
  pool[1].synchronize();  // would never return if the second read followed the held one
}

TYPED_TEST(Issue, a_write_waits_for_all_reads_since_the_last_write) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 4});
  auto const shared = settled_tensor(device);
  Journal journal;
  Gate gate;
  // The queues of stream groups 0 to 2 are [wait for the test's gate, read]; that of stream group 3
  // is [wait for the three reads, write].
  for (int i = 0; i < 3; ++i) {
    gate.hold(pool[i].compute());
    StreamScope const scope(pool[i]);
    issue("read", reads(shared), journal.entry(device, "read"));
  }
  StreamScope const scope(pool[3]);
  issue("write", writes(shared), journal.entry(device, "write"));
  EXPECT_EQ(device.wait_counts().issued, 3U);
  gate.open();
  pool.synchronize();
  EXPECT_THAT(journal.entries(), ElementsAre("read", "read", "read", "write"));
}

TYPED_TEST(Issue, data_written_on_one_group_is_read_on_another) {
  for (auto const launch_threads : kAllLaunchThreads) {
    Device<TypeParam> const device;
    StreamPool pool(device, {.groups = 3, .launch_threads = launch_threads});
    Tensor<std::uint8_t, TypeParam> const tensor(device, {100'000});
    Tensor<std::uint8_t, TypeParam> const copied(device, {100'000});
    for (std::uint8_t round = 0; round < 30; ++round) {
      {
        StreamScope const scope(pool[0]);
        fill_bytes(tensor, round);
      }
      {
        StreamScope const scope(pool[1]);
        copy(copied, tensor);
      }
      StreamScope const scope(pool[2]);
      ASSERT_EQ(to_host(copied), std::vector<std::uint8_t>(100'000, round));
    }
  }
}

TYPED_TEST(Issue, a_tensor_read_and_written_by_one_operation_counts_as_written) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 2});
  Tensor<float, TypeParam> const both(device, {16});
  {
    StreamScope const scope(pool[0]);
    fill_bytes(both, 0);
    issue("update", reads(both), writes(both), [](auto) {});
  }
  StreamScope const scope(pool[1]);
  issue("read", reads(both), [](auto) {});
  EXPECT_EQ(device.wait_counts().needed, 1U);
}

TYPED_TEST(Issue, takes_ranges_of_tensors_and_several_kinds_at_once) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 3});
  std::vector<Tensor<float, TypeParam>> many(3, Tensor<float, TypeParam>(device, {4}));
  for (auto& tensor : many) {
    tensor = Tensor<float, TypeParam>(device, {4});
  }
  Tensor<std::int64_t, TypeParam> const one(device, {4});
  Tensor<float, TypeParam> const out(device, {4});
  {
    StreamScope const scope(pool[0]);
    issue("write many", writes(many), [](auto) {});
  }
  {
    StreamScope const scope(pool[1]);
    issue("write one", writes(one), [](auto) {});
  }
  StreamScope const scope(pool[2]);
  issue("read all", reads(many, one), writes(out), [](auto) {});
  EXPECT_EQ(device.wait_counts().needed, 2U) << "groups 0 and 1, each once";
}

TYPED_TEST(Issue, without_a_tensor_is_an_error) {
  std::vector<Tensor<float, TypeParam>> const none;
  try {
    issue("nothing", reads(none), [](auto) {});
    FAIL();
  } catch (std::invalid_argument const& error) {
    EXPECT_THAT(error.what(), HasSubstr("'nothing' names no tensor"));
  }
}

TYPED_TEST(Issue, calls_the_work_once_with_the_groups_stream) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 2});
  Tensor<float, TypeParam> const tensor(device, {4});
  StreamScope const scope(pool[1]);
  std::vector<typename TypeParam::native_stream> streams;
  issue("compute", writes(tensor), [&](auto stream) { streams.push_back(native(stream)); });
  issue("h2d",
        writes(tensor),
        [&](auto stream) { streams.push_back(native(stream)); },
        {.stream = StreamKind::h2d});
  EXPECT_THAT(streams, ElementsAre(pool[1].compute().native(), pool[1].h2d().native()));
}

TYPED_TEST(Issue, work_that_throws_leaves_all_usable) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 2});
  Tensor<std::uint8_t, TypeParam> const tensor(device, {100});
  {
    StreamScope const scope(pool[0]);
    fill_bytes(tensor, 3);
    EXPECT_THROW(issue("fails", writes(tensor), [](auto) { throw std::domain_error("refused"); }),
                 std::domain_error);
  }
  StreamScope const scope(pool[1]);
  EXPECT_EQ(to_host(tensor), std::vector<std::uint8_t>(100, 3));
}

TYPED_TEST(Issue, work_that_throws_on_a_launch_thread_is_reported_at_a_later_call) {
  for (auto const launch_threads : {LaunchThreads::shared, LaunchThreads::per_group}) {
    Device<TypeParam> const device;
    StreamPool pool(device, {.groups = 2, .launch_threads = launch_threads});
    Tensor<std::uint8_t, TypeParam> const tensor(device, {100});
    {
      StreamScope const scope(pool[0]);
      fill_bytes(tensor, 3);
      issue("fails", writes(tensor), [](auto) { throw std::domain_error("refused"); });
      EXPECT_THROW(pool[0].synchronize(), std::domain_error);
      EXPECT_NO_THROW(pool[0].synchronize()) << "reported twice";
    }
    StreamScope const scope(pool[1]);
    EXPECT_EQ(to_host(tensor), std::vector<std::uint8_t>(100, 3));
  }
}

TYPED_TEST(Issue, from_inside_an_operation_on_the_same_stream_is_an_error) {
  Device<TypeParam> const device;
  Tensor<float, TypeParam> const tensor(device, {4});
  auto const nested = [&](auto) { issue("inner", writes(tensor), [](auto) {}); };
  EXPECT_THROW(issue("outer", writes(tensor), nested), std::logic_error);
  EXPECT_NO_THROW(issue("after", writes(tensor), [](auto) {}));
}

TYPED_TEST(Issue, a_write_to_a_frozen_tensor_is_an_error_that_notes_nothing) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 2});
  Tensor<float, TypeParam> frozen(device, {4});
  Tensor<float, TypeParam> const other(device, {4});
  frozen.freeze();
  {
    StreamScope const scope(pool[0]);
    NameScope const tower("tower");
    try {
      issue("train", writes(other, frozen), [](auto) { FAIL() << "ran"; });
      FAIL();
    } catch (std::logic_error const& error) {
      EXPECT_THAT(error.what(), HasSubstr("'tower/train' writes an immutable tensor"));
    }
  }
  StreamScope const scope(pool[1]);
  issue("write", writes(other), [](auto) {});
  EXPECT_EQ(device.wait_counts().needed, 0U);
}

TYPED_TEST(Issue, reads_of_a_frozen_tensor_are_not_tracked) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 2});
  Tensor<float, TypeParam> weights(device, {4});
  fill_bytes(weights, 0);
  weights.freeze();
  {
    StreamScope const scope(pool[0]);
    issue("read", reads(weights), [](auto) {});
  }
  StreamScope const scope(pool[1]);
  issue("read", reads(weights), [](auto) {});
  EXPECT_TRUE(weights.block()->record.log.reads().empty());
  EXPECT_EQ(device.wait_counts().needed, 0U);
}

TYPED_TEST(Issue, memory_may_be_let_go_as_soon_as_it_returns) {
  for (auto const launch_threads : kAllLaunchThreads) {
    Device<TypeParam> const device;
    StreamPool pool(device, {.groups = 2, .launch_threads = launch_threads});
    std::vector<Tensor<std::uint8_t, TypeParam>> results;
    for (std::uint8_t i = 0; i < 100; ++i) {
      StreamScope const scope(pool[i % 2]);
      Tensor<std::uint8_t, TypeParam> const passing(device, {5000});
      fill_bytes(passing, i);
      results.emplace_back(device, Shape{5000});
      copy(results.back(), passing);
    }
    for (std::uint8_t i = 0; i < 100; ++i) {
      ASSERT_EQ(to_host(results[i]), std::vector<std::uint8_t>(5000, i));
    }
  }
}

TYPED_TEST(Issue, from_many_threads_each_value_arrives) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 4});
  Tensor<std::uint8_t, TypeParam> const shared(device, {64});
  fill_bytes(shared, 9);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      StreamScope const scope(pool[i % 4]);
      Tensor<std::uint8_t, TypeParam> const mine(device, {64});
      for (int round = 0; round < 100; ++round) {
        copy(mine, shared);
      }
      EXPECT_EQ(to_host(mine), std::vector<std::uint8_t>(64, 9));
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

}  // namespace
}  // namespace msstream::testing
