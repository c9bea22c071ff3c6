// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/runtime.hpp>

#include <atomic>
#include <memory>

namespace msstream::testing {

/// Holds streams where it was put until the test opens it, so that a test decides what has run and
/// what has not, without sleeping.
///
/// Opens when it is destroyed, so that a failed assertion does not hang. CUDA may run the host
/// functions of all streams on one thread: while a gate is closed, expect no other gate or
/// call_host() to get anywhere, and free no memory.
class Gate {
 public:
  Gate() = default;
  Gate(Gate const&) = delete;
  Gate& operator=(Gate const&) = delete;
  ~Gate() { open(); }

  template <Runtime R>
  void block(R& runtime, typename R::native_stream stream) {
    if constexpr (requires { runtime.hold(stream, opened_); }) {
      runtime.hold(stream, opened_);  // on a single thread, waiting would be for ever
    } else if constexpr (requires { runtime.inner().hold(stream, opened_); }) {
      runtime.inner().hold(stream, opened_);
    } else {
      runtime.call_host(stream, [opened = opened_] { opened->wait(false); });
    }
  }
  /// The same for a Stream of the library.
  template <class S>
  void hold(S& stream) {
    block(*stream.context()->runtime, stream.native());
  }
  void open() {
    opened_->store(true);
    opened_->notify_all();
  }

 private:
  std::shared_ptr<std::atomic<bool>> opened_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace msstream::testing
