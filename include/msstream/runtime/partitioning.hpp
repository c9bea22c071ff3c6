// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/runtime.hpp>

#include <concepts>

namespace msstream {

/// Number `index` of `parts` equal parts of a device's multiprocessors. One part is all of them.
struct SmPartition {
  int index = 0;
  int parts = 1;

  [[nodiscard]] bool is_all() const noexcept { return parts == 1; }
};

/// A runtime on which a stream's kernels can be kept to a part of the device's multiprocessors.
/// Copies are not: they need none. What is captured from such a stream keeps to its part wherever
/// it is replayed. Parts are of as many multiprocessors as the device can split off, and some may
/// be in none.
///
/// - most_sm_parts: how many parts the device can be split into; 1: it cannot be.
/// - create_stream: throws std::invalid_argument for a part that the device does not have.
template <class R>
concept PartitioningRuntime = Runtime<R> && requires(R runtime) {
  { runtime.most_sm_parts() } -> std::same_as<int>;
  {
    runtime.create_stream(StreamPriority::normal, SmPartition{})
    } -> std::same_as<typename R::native_stream>;
};

/// On a runtime without parts all streams run on all of the device.
template <Runtime R>
[[nodiscard]] typename R::native_stream create_stream(R& runtime,
                                                      StreamPriority priority,
                                                      SmPartition partition) {
  if constexpr (PartitioningRuntime<R>) {
    return runtime.create_stream(priority, partition);
  } else {
    return runtime.create_stream(priority);
  }
}

}  // namespace msstream
