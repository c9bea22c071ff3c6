// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/gate_cuda.hpp"

#include <msstream/runtime/detail/backend_of.hpp>
#include <msstream/runtime/runtime.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <type_traits>

namespace msstream::testing {

/// Blocks streams at the positions where block() was called until the test opens the gate. A test
/// decides with a gate which work has run, without sleeping.
///
/// The destructor opens the gate, so that a failed assertion does not hang. While a gate is closed,
/// free no memory of the runtime, and launch no kernel for the first time: CUDA may wait for all
/// streams, in the second case to load the kernel.
class Gate {
 public:
  Gate() = default;
  Gate(Gate const&) = delete;
  Gate& operator=(Gate const&) = delete;
  ~Gate() { open(); }

  template <Runtime R>
  void block(R& runtime, typename R::native_stream stream) {
    if constexpr (requires { runtime.hold(stream, opened_); }) {
      runtime.hold(stream, opened_);  // a host call that waits would deadlock on a single thread
    } else if constexpr (requires { runtime.inner().hold(stream, opened_); }) {
      runtime.inner().hold(stream, opened_);
#if MSSTREAM_CUDA
    } else if constexpr (std::is_same_v<typename R::stream_ref, CudaStream>) {
      if (!on_gpu_) {
        on_gpu_.emplace();
      }
      if (!opened_->load()) {
        on_gpu_->hold(stream);
      }
#endif
    } else {
      runtime.call_host(stream, [opened = opened_] { opened->wait(false); });
    }
  }
  /// Blocks a stream of the library's type Stream until the gate opens, as block() does for a
  /// native stream.
  template <class Stream>
  void hold(Stream const& stream) {
    using R = typename Stream::runtime_type;
    block(msstream::detail::runtime_of<R>(stream.body().backend()), stream.native());
  }
  void open() {
    opened_->store(true);
    opened_->notify_all();
#if MSSTREAM_CUDA
    if (on_gpu_) {
      on_gpu_->open();
    }
#endif
  }

 private:
  std::shared_ptr<std::atomic<bool>> opened_ = std::make_shared<std::atomic<bool>>(false);
#if MSSTREAM_CUDA
  std::optional<CudaGate> on_gpu_;
#endif
};

}  // namespace msstream::testing
