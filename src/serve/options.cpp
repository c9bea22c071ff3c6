// SPDX-License-Identifier: Apache-2.0
#include "serve/replica.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/serve/options.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <thread>

namespace msstream::serve {

namespace {

template <class Value>
void require_within(char const* option, Value value, Value least, Value most) {
  require(value >= least && value <= most,
          "InferencePoolOptions: {} is {}; expected {} to {}",
          option,
          value,
          least,
          most);
}

}  // namespace

InferencePoolOptions const& InferencePoolOptions::checked() const {
  require_within("replicas", replicas, 1, 255);
  require_within("depth", depth, 1, kMostSlots);
  require_within("branches", branches, 1, 64);
  require_within<std::int64_t>("outputs_per_row", outputs_per_row, 1, 1 << 20);
  require_within<std::size_t>("queue_capacity", queue_capacity, 0, 1 << 24);
  require(!buckets.empty(), "InferencePoolOptions: no buckets; expected at least one");
  std::int64_t before = 0;
  for (auto const rows : buckets) {
    require(
        rows > before,
        "InferencePoolOptions: a bucket of {} rows after {}; expected them positive and ascending",
        rows,
        before);
    before = rows;
  }
  for (auto const& field : inputs) {
    auto const room = buckets.back() * field.per_row;
    require(field.order != Field::Order::lists || field.dtype != DType::int32 ||
                room <= std::numeric_limits<std::int32_t>::max(),
            "InferencePoolOptions: lists of '{}' with room for {} elements of int32 in the largest "
            "bucket; expected less than 2^31, for offsets of int32",
            field.name,
            room);
  }
  constexpr std::chrono::nanoseconds kLongestDelay = std::chrono::hours(1);
  require(max_batch_delay.count() >= 0 && max_batch_delay <= kLongestDelay,
          "InferencePoolOptions: max_batch_delay is {} ns; expected 0 to {}, an hour",
          max_batch_delay.count(),
          kLongestDelay.count());
  require(max_batch_delay.count() == 0 || queue_capacity >= 1,
          "InferencePoolOptions: max_batch_delay with a queue_capacity of 0; queries wait in the "
          "queue for each other");
  require(ageing.count() > 0,
          "InferencePoolOptions: ageing is {} ns; expected more than 0",
          ageing.count());
  require_within("sm_partitions", sm_partitions, 1, 256);
  require_within("launch_thread_count", launch_thread_count, 0, 64);
  require(launch_thread_count == 0 || launch_threads == LaunchThreads::shared,
          "InferencePoolOptions: launch_thread_count is for launch_threads = shared");
  require_within("launch_spin_us", launch_spin_us, -1, 1'000'000);
  return *this;
}

int InferencePoolOptions::launch_thread_total() const noexcept {
  constexpr int kUsual = 4;
  switch (launch_threads) {
    case LaunchThreads::shared:
      return std::min(replicas, launch_thread_count != 0 ? launch_thread_count : kUsual);
    case LaunchThreads::per_group:
      return replicas;
    case LaunchThreads::none:
      break;
  }
  return 0;
}

std::chrono::microseconds InferencePoolOptions::launch_spin() const noexcept {
  constexpr int kUsual = 200;
  auto const busy = static_cast<unsigned>(launch_thread_total()) + 1;
  bool const has_room = busy < std::thread::hardware_concurrency();
  return std::chrono::microseconds(launch_spin_us >= 0 ? launch_spin_us : has_room ? kUsual : 0);
}

}  // namespace msstream::serve
