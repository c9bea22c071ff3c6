// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/closure.hpp>

#include <cstdint>

namespace msstream {

/// Where a stream takes its work from, on a runtime whose kernels run on the CPU.
class WorkQueue {
 public:
  WorkQueue() = default;
  WorkQueue(WorkQueue const&) = delete;
  WorkQueue& operator=(WorkQueue const&) = delete;
  virtual ~WorkQueue() = default;

  /// The closure runs after everything that the stream got before. Does not block. Returns the
  /// closure's number on the stream, which counts from 1.
  virtual std::uint64_t enqueue(Closure closure) = 0;
};

}  // namespace msstream
