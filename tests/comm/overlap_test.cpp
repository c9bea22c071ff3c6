// SPDX-License-Identifier: Apache-2.0
#include "comm/ranks.hpp"
#include "memory/journal.hpp"
#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"

#include <msstream/stream/stream_assignment.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/trace/name_scope.hpp>

#include <gmock/gmock.h>

#include <atomic>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class CollectiveOverlap : public ::testing::Test {};
TYPED_TEST_SUITE(CollectiveOverlap, ThreadRuntimes, RuntimeNamesOfRanks);

/// Returns a tensor with one element, whose upload is complete, so that nothing waits for it.
template <Runtime R>
[[nodiscard]] Tensor<float, R> settled_element(Rank<R> const& rank, float value) {
  auto const tensor = rank.tensor(std::vector<float>{value});
  rank.device.default_group().synchronize();
  return tensor;
}

/// Returns work that stores a value into the tensor's element.
template <Runtime R>
[[nodiscard]] auto storing(Rank<R> const& rank, Tensor<float, R> const& tensor, float value) {
  return on_host(rank.device, [to = tensor.data(), value] { *to = value; });
}

/// Returns the sum over two ranks of an element that a held operation sets from 0 to 1 before.
template <Runtime R>
float sum_of_held_writes() {
  float result = 0;
  on_ranks<R>(2, [&](Rank<R> const& rank) {
    auto const x = settled_element(rank, 0);
    Gate gate;
    // The default stream's queue is [gate, write]; that of the communicator is [wait, all_reduce].
    gate.hold(rank.device.default_group().compute());
    issue("write", writes(x), storing(rank, x, 1));
    all_reduce(rank.communicator, x);
    if constexpr (!keeps_waits<R>) {
      rank.communicator.synchronize();
    }
    gate.open();
    rank.device.default_group().synchronize();
    rank.communicator.synchronize();
    if (rank.rank() == 0) {
      result = to_host(x)[0];
    }
  });
  return result;
}

TYPED_TEST(CollectiveOverlap, a_collective_follows_the_writes_of_its_tensor) {
  EXPECT_EQ(sum_of_held_writes<TypeParam>(), 2);
}

TEST(CollectiveWithoutWaits, comes_before_a_write_that_it_must_follow) {
  EXPECT_EQ(sum_of_held_writes<HostWithoutWaits>(), 1);
}

/// Returns what an operation reads that follows a held sum of ones over two ranks.
template <Runtime R>
float value_after_held_sum() {
  float result = 0;
  on_ranks<R>(2, [&](Rank<R> const& rank) {
    auto const x = settled_element(rank, 1);
    float seen = 0;
    Gate gate;
    // The communicator's queue is [gate, all_reduce]; that of the default stream is [wait, read].
    gate.hold(rank.communicator.group().compute());
    all_reduce(rank.communicator, x);
    issue("read", reads(x), on_host(rank.device, [&seen, from = x.data()] { seen = *from; }));
    if constexpr (!keeps_waits<R>) {
      rank.device.default_group().synchronize();
    }
    gate.open();
    rank.communicator.synchronize();
    rank.device.default_group().synchronize();
    if (rank.rank() == 0) {
      result = seen;
    }
  });
  return result;
}

TYPED_TEST(CollectiveOverlap, later_uses_of_its_tensor_follow_a_collective) {
  EXPECT_EQ(value_after_held_sum<TypeParam>(), 2);
}

TEST(CollectiveWithoutWaits, comes_after_a_read_that_must_follow_it) {
  EXPECT_EQ(value_after_held_sum<HostWithoutWaits>(), 1);
}

TYPED_TEST(CollectiveOverlap, independent_work_runs_while_a_collective_waits_for_a_rank) {
  std::atomic<bool> has_run{false};
  on_ranks<TypeParam>(2, [&](Rank<TypeParam> const& rank) {
    auto const x = settled_element(rank, 1);
    auto const y = settled_element(rank, 0);
    if (rank.rank() == 1) {
      has_run.wait(false);
    }
    all_reduce(rank.communicator, x);
    if (rank.rank() == 0) {
      issue("independent", writes(y), storing(rank, y, 5));
      // Would never return if the default stream waited for the rank 1.
      EXPECT_EQ(to_host(y)[0], 5);
      has_run.store(true);
      has_run.notify_all();
    }
    EXPECT_EQ(to_host(x)[0], 2);
  });
}

TYPED_TEST(CollectiveOverlap, collectives_of_two_communicators_run_at_once) {
  on_ranks<TypeParam>(2, [](Rank<TypeParam> const& rank) {
    comm::Communicator<TypeParam> const other(rank.device, rank.world, {.name = "other"});
    auto const x = settled_element(rank, 1);
    auto const y = settled_element(rank, 10);
    // Each rank waits in the collective that the other one issues last.
    if (rank.rank() == 0) {
      all_reduce(rank.communicator, x);
      all_reduce(other, y);
    } else {
      all_reduce(other, y);
      all_reduce(rank.communicator, x);
    }
    EXPECT_EQ(to_host(x)[0], 2);
    EXPECT_EQ(to_host(y)[0], 20);
  });
}

TYPED_TEST(CollectiveOverlap, no_scope_and_no_assignment_places_a_collective) {
  auto const everything = StreamAssignment::parse("1:.*", "assignment", 2);
  on_ranks<TypeParam>(2, [&](Rank<TypeParam> const& rank) {
    StreamPool<TypeParam> pool(rank.device,
                               {.groups = 2, .assignment = everything, .log = nullptr});
    auto const x = settled_element(rank, 1);
    Gate gate;
    gate.hold(pool[1].compute());
    StreamScope const scope(pool[1]);
    // Would never return if the collective were on the held group.
    rank.device.synchronize(all_reduce(rank.communicator, x));
    gate.open();
    EXPECT_EQ(to_host(x)[0], 2);
  });
}

TYPED_TEST(CollectiveOverlap, a_collective_has_a_name_and_a_lane_in_timelines) {
  on_ranks<TypeParam>(2, [](Rank<TypeParam> const& rank) {
    comm::Communicator<TypeParam> const gradients(rank.device, rank.world, {.name = "gradients"});
    auto const x = settled_element(rank, 1);
    rank.device.start_spans();
    {
      NameScope const scope("tower");
      all_reduce(gradients, x);
    }
    auto const timeline = rank.device.stop_spans();
    ASSERT_EQ(timeline.spans().size(), 1U);
    EXPECT_EQ(timeline.spans()[0].name, "tower/all_reduce");
    EXPECT_EQ(timeline.spans()[0].lane, "comm gradients");
  });
}

}  // namespace
}  // namespace msstream::testing
