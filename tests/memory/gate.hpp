// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/stream/stream.hpp>

#include <atomic>
#include <memory>

namespace msstream::testing {

/// Holds streams back until the test opens it, or ends.
///
/// States: closed, open; it never closes again. The flag is shared with the streams that wait, so
/// the gate may go before they have passed. On CUDA a held stream blocks the one thread that runs
/// host functions: other streams' host functions do not run before the gate opens.
class Gate {
 public:
  Gate() = default;
  Gate(Gate const&) = delete;
  Gate& operator=(Gate const&) = delete;
  ~Gate() { open(); }

  /// What the stream gets from here on runs only once the gate is open.
  template <Runtime R>
  void hold(Stream<R>& stream) {
    stream.context()->runtime->call_host(stream.native(),
                                         [opened = opened_] { opened->wait(false); });
  }
  void open() {
    opened_->store(true);
    opened_->notify_all();
  }

 private:
  std::shared_ptr<std::atomic<bool>> opened_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace msstream::testing
