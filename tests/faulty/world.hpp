// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/counting.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/runtime/faulty.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>

#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace msstream::testing {

using Floats = std::vector<float>;

/// A device with a pool, for scenarios that open them. All runtime calls are counted, and can be
/// made to fail.
template <Runtime Inner>
struct World {
  using R = Faulty<Counting<Inner>>;

  World() = default;
  World(World const&) = delete;
  World& operator=(World const&) = delete;

  /// Creates the device and the pool, unless they exist already.
  void open(StreamPoolOptions const& options = {.groups = 2}, std::size_t limit_bytes = 0) {
    if (!device) {
      DeviceOptions<R> with{.memory = {.limit_bytes = limit_bytes, .max_growth_bytes = kGrowth}};
      with.runtime.plan = plan;
      with.runtime.runtime.census = census;
      device.emplace(with);
    }
    if (!pool) {
      pool.emplace(*device, options);
    }
  }
  void close() {
    left_behind.clear();
    kept.reset();
    pool.reset();
    device.reset();
  }

  static constexpr std::size_t kGrowth = 1 << 16;

  std::shared_ptr<FaultPlan> plan = std::make_shared<FaultPlan>();
  std::shared_ptr<Census> census = std::make_shared<Census>();
  std::optional<Device<R>> device;
  std::optional<StreamPool<R>> pool;
  /// The tensors that the scenario used. Operations on them must still be ordered after a failure.
  std::vector<Tensor<float, R>> left_behind;
  /// An object that the scenario keeps for its checks after a failure.
  std::shared_ptr<void> kept;
};

/// Returns 0, 1, 2, …
[[nodiscard]] inline Floats ascending(std::int64_t count) {
  Floats values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(i));
  }
  return values;
}

/// Expects right results from a computation that forks to all groups and joins again, twice.
template <Runtime Inner>
void expect_right_results(World<Inner>& world) {
  using R = typename World<Inner>::R;
  constexpr std::int64_t kCount = 500;
  auto x = to_device<float>(*world.device, ascending(kCount), {kCount});
  float factor = 1;
  for (int round = 0; round < 2; ++round) {
    std::vector<Tensor<float, R>> parts;
    float sum = 0;
    for (int i = 0; i < world.pool->groups(); ++i) {
      StreamScope const scope((*world.pool)[i]);
      parts.push_back(ops::scale(x, static_cast<float>(i + 1)));
      sum += static_cast<float>(i + 1);
    }
    x = ops::add<R>(parts);
    factor *= sum;
  }
  auto const results = to_host(x);
  for (std::int64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(results[static_cast<std::size_t>(i)], factor * static_cast<float>(i))
        << "element " << i;
  }
}

/// Expects operations on the tensors of a failed scenario to be ordered: a read on one group must
/// see a write issued earlier on another group, but not a write issued later on a third one.
template <Runtime Inner>
void expect_left_behind_in_order(World<Inner>& world) {
  using R = typename World<Inner>::R;
  int group = 0;
  auto const next_group = [&]() -> StreamGroup<R> const& {
    return (*world.pool)[group++ % world.pool->groups()];
  };
  std::vector<Tensor<float, R>> copies;
  for (auto const& tensor : world.left_behind) {
    {
      StreamScope const scope(next_group());
      fill_bytes(tensor, 0);
    }
    {
      StreamScope const scope(next_group());
      copies.push_back(ops::scale(tensor, 2));
    }
    StreamScope const scope(next_group());
    fill_bytes(tensor, 0x3F);
  }
  for (auto const& copy : copies) {
    ASSERT_THAT(to_host(copy), ::testing::Each(0.0F));
  }
}

}  // namespace msstream::testing
