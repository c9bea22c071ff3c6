// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/stream/stream.hpp>
#include <msstream/tensor/detail/any_tensor_holder.hpp>
#include <msstream/tensor/issue.hpp>

#include <concepts>
#include <source_location>

namespace msstream {

/// A guard that orders work which the user puts directly on streams, without issue(). The streams
/// wait for earlier uses of the held tensors; later uses of the tensors, and the next owners of
/// their memory, wait for the streams.
///
///     TensorHolder holder(stream);
///     holder.hold(weights);
///     my_kernel<<<grid, block, 0, stream.native()>>>(weights.data());
///     // after the holder is destroyed, all work on `weights` follows my_kernel
///
/// Destruction takes one position per stream, no event and no wait, on any thread, unless the
/// holder has the last handle of a stream group, which waits for its work. Not synchronised.
///
/// A holder with a captured stream must be released before the capture ends; otherwise the
/// constructor of the CapturedStep throws std::logic_error with the place of the call of hold().
template <Runtime R = DefaultRuntime>
class TensorHolder {
 public:
  /// Makes a holder, without tensors yet, for work on the given streams, which it keeps alive.
  template <std::same_as<Stream<R>>... Streams>
  [[nodiscard("without a name the guard goes at once")]] explicit TensorHolder(
      Streams const&... streams)
      : any_({streams.body().engine()...}) {}
  TensorHolder(TensorHolder const&) = delete;
  TensorHolder& operator=(TensorHolder const&) = delete;

  /// Keeps the tensor's memory, and makes the streams' next work wait for the tensor's uses so far.
  /// The work may read and write the tensor. With AccessMode::read it may only read; it then waits
  /// for writes alone, and other work may read at the same time. If the launch of an earlier use
  /// failed on a launch thread, rethrows the failure, and does not hold the tensor. `held_at` is
  /// for the reports of a checking runtime, which reports two holders on different streams at once
  /// that may both write.
  template <Tracked T>
    requires std::same_as<typename T::runtime_type, R>
  void hold(T const& tracked,
            AccessMode mode = AccessMode::write,
            std::source_location held_at = std::source_location::current()) {
    any_.hold(tracked.block(), mode, held_at);
  }

  /// Releases the tensors now, instead of in the destructor: later uses of the tensors follow all
  /// work that is on the streams so far.
  void release() { any_.release(); }

 private:
  detail::AnyTensorHolder any_;
};

template <Runtime R, class... Rest>
TensorHolder(Stream<R> const&, Rest const&...) -> TensorHolder<R>;

}  // namespace msstream
