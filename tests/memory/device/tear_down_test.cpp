// SPDX-License-Identifier: Apache-2.0
// Tests objects that are destroyed in any order while their work is in flight, and groups that are
// created and destroyed a thousand times.
#include "memory/watched_runtime.hpp"
#include "runtime/gate.hpp"
#include "stream/stream_context.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace msstream::testing {
namespace {

template <class TypeParam>
class TearDown : public RuntimeTest<TypeParam> {
 protected:
  using Bytes = Tensor<std::uint8_t, Watched<TypeParam>>;
  using Pinned = PinnedArray<std::uint8_t, Watched<TypeParam>>;

  static void expect_nothing_left(Watch const& watch) {
    EXPECT_EQ(to_string(watch), Watch::nothing());
  }
};
TYPED_TEST_SUITE(TearDown, Runtimes, RuntimeNames);

/// Destroys a device, its groups, and a large, a small and a pinned tensor with work in flight, in
/// every order. The gate opens when the host starts to wait, so memory that is freed without a wait
/// is freed before the work runs.
TYPED_TEST(TearDown, nothing_goes_before_the_work_on_it_in_any_order) {
  using R = Watched<TypeParam>;
  std::array<int, 5> order{0, 1, 2, 3, 4};
  do {
    SCOPED_TRACE(::testing::PrintToString(order));
    Journal journal;
    Gate gate;
    auto const watch = std::make_shared<Watch>();
    watch_waits(*watch, gate, journal);
    std::optional<Device<R>> device(watched_device<TypeParam>({}, watch));
    std::optional<StreamPool<R>> pool(std::in_place, *device, StreamPoolOptions{.groups = 2});
    std::optional<typename TestFixture::Bytes> large(std::in_place, *device, Shape{4 * kMiB});
    std::optional<typename TestFixture::Bytes> small(std::in_place, *device, Shape{100});
    std::optional<typename TestFixture::Pinned> pinned(std::in_place, *device, 100U);
    // The queue of stream group 1's h2d stream is [wait for the test's gate, use]. Destroying a
    // group waits for its compute stream only.
    gate.hold((*pool)[1].h2d());
    {
      StreamScope const scope((*pool)[1]);
      issue("use",
            reads(*pinned),
            writes(*large, *small),
            journal.entry(*device, "use"),
            {.stream = StreamKind::h2d});
    }
    // The operation "follow" waits for the operation "use" on the device. Its group is destroyed
    // with the pool.
    {
      StreamScope const scope((*pool)[0]);
      issue("follow", reads(*large), [](auto) {});
    }
    for (int const which : order) {
      switch (which) {
        case 0:
          device.reset();
          break;
        case 1:
          pool.reset();
          break;
        case 2:
          large.reset();
          break;
        case 3:
          small.reset();
          break;
        default:
          pinned.reset();
      }
    }
    ASSERT_GE(journal.entries().size(), 2U);
    EXPECT_EQ(journal.entries().front(), "use");
    this->expect_nothing_left(*watch);
  } while (std::next_permutation(order.begin(), order.end()));
}

TYPED_TEST(TearDown, a_thousand_generations_of_groups_leave_nothing_behind) {
  using R = Watched<TypeParam>;
  constexpr int kGenerations = 1000;
  constexpr std::size_t kStep = std::size_t{2} << 20U;
  auto const watch = std::make_shared<Watch>();
  {
    auto const device = watched_device<TypeParam>({.max_growth_bytes = kStep}, watch);
    std::size_t names_at_first = 0;
    for (int generation = 1; generation <= kGenerations; ++generation) {
      {
        StreamPool<R> pool(device,
                           {.groups = 1 + generation % 2, .merge_streams = generation % 3 == 0});
        std::vector<typename TestFixture::Bytes> tensors;
        for (int i = 0; i < 4; ++i) {
          StreamScope const scope(pool[i % pool.groups()]);
          for (auto const bytes : {std::int64_t{100}, std::int64_t{40'000} + 1000 * i, 2 * kMiB}) {
            tensors.emplace_back(device, Shape{bytes});
            issue("use", writes(tensors.back()), [](auto) {});
          }
          issue("follow", reads(tensors), [](auto) {});
          typename TestFixture::Pinned const staged(device, 100);
          copy(staged, tensors[tensors.size() - 3]);
        }
      }
      if (generation == kGenerations / 10) {
        names_at_first = device.context()->tracker->stream_names().size();
      }
    }
    auto const statistics = device.memory_statistics();
    EXPECT_EQ(statistics.live_bytes, 0U);
    EXPECT_EQ(watch->streams, 0) << "of groups that are gone";
    // A pool may reserve a quarter more than the peak, plus one growth step, before a stream must
    // wait for memory. The bound allows one more step for rounding.
    EXPECT_LE(statistics.reserved_bytes,
              statistics.peak_live_bytes + statistics.peak_live_bytes / 4 + 2 * kStep);
    EXPECT_LE(watch->pinned_bytes, std::size_t(4) * kMiB);
    EXPECT_LE(device.context()->tracker->stream_names().size(), names_at_first + 6)
        << "places of streams";
    EXPECT_LT(watch->events, 1000);
  }
  this->expect_nothing_left(*watch);
}

}  // namespace
}  // namespace msstream::testing
