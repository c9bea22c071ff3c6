// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/closure.hpp>

#include <cstdint>

namespace msstream {

/// The queue from which a stream takes its work, on a runtime whose kernels run on the CPU.
class WorkQueue {
 public:
  WorkQueue() = default;
  WorkQueue(WorkQueue const&) = delete;
  WorkQueue& operator=(WorkQueue const&) = delete;
  virtual ~WorkQueue() = default;

  /// Enqueues the closure, which runs after everything enqueued to the stream before. Does not
  /// block. Returns the closure's number on the stream, counted from 1.
  virtual std::uint64_t enqueue(Closure closure) = 0;
};

}  // namespace msstream
