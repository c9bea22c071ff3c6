// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/runtime.hpp>

#include <concepts>

namespace msstream {

/// Part number `index` of `parts` equal parts of a device's multiprocessors, of which `spared` are
/// in no part. With `parts` = 1 and `spared` = 0, all multiprocessors.
struct SmPartition {
  int index = 0;
  int parts = 1;
  int spared = 0;

  /// Returns whether kernels may use every multiprocessor.
  [[nodiscard]] bool is_all() const noexcept { return parts == 1 && spared == 0; }
};

/// A runtime that can restrict a stream's kernels to a part of the device's multiprocessors. Copies
/// are not restricted, because they use no multiprocessors. Work captured from such a stream keeps
/// to its part wherever it is replayed. A part has as many multiprocessors as the device can split
/// off, so more than the spared ones may be in no part.
///
/// - most_sm_parts: returns the number of parts into which the device can be split; 1 if it cannot.
/// - create_stream: throws std::invalid_argument for a part that the device does not have.
template <class R>
concept PartitioningRuntime = Runtime<R> && requires(R runtime) {
  { runtime.most_sm_parts() } -> std::same_as<int>;
  {
    runtime.create_stream(StreamPriority::normal, SmPartition{})
    } -> std::same_as<typename R::native_stream>;
};

/// Creates a stream whose kernels run on a part of the device's multiprocessors. On a runtime that
/// cannot restrict streams, they run on the whole device.
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
