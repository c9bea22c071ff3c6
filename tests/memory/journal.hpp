// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/host/host_queue.hpp"
#include "stream/stream_context.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {

[[nodiscard]] inline HostQueue* native(HostStream stream) {
  return static_cast<HostQueue*>(&stream.queue());
}
[[nodiscard]] inline CUstream_st* native(CudaStream stream) {
  return stream.handle;
}

/// Returns work for issue() that calls `function()` on the host when the stream reaches it.
template <Runtime R, class F>
[[nodiscard]] auto on_host(Device<R> const& device, F function) {
  return [runtime = device.context()->runtime, function](auto stream) {
    runtime->call_host(native(stream), function);
  };
}

/// A list of entries that any thread may add to, in the order of the calls of add(). Thread-safe.
class Journal {
 public:
  void add(std::string entry) {
    std::lock_guard const guard(shared_->mutex);
    shared_->entries.push_back(std::move(entry));
  }
  [[nodiscard]] std::vector<std::string> entries() const {
    std::lock_guard const guard(shared_->mutex);
    return shared_->entries;
  }
  /// Returns a function for call_host() that adds `what` to the journal when the stream reaches it.
  [[nodiscard]] auto entry(std::string what) const {
    return [journal = *this, what = std::move(what)]() mutable { journal.add(what); };
  }
  /// Returns work for issue() that adds `what` to the journal when the stream reaches it.
  template <Runtime R>
  [[nodiscard]] auto entry(Device<R> const& device, std::string what) const {
    return on_host(device, entry(std::move(what)));
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::vector<std::string> entries;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

using Order = std::vector<std::string>;

}  // namespace msstream::testing
