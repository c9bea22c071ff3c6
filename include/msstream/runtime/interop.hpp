// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/runtime.hpp>

#include <concepts>
#include <cstdint>
#include <optional>

namespace msstream {

/// The identity of a stream that msstream did not make.
struct ForeignStream {
  /// A number that is unique among all streams of the program, past and future, unlike the handle,
  /// which may be reused.
  std::uint64_t id;
  /// Whether the stream exists as long as the program, with one handle for all threads (as CUDA's
  /// legacy default stream does).
  bool stays;
};

/// A runtime that can be called from code that does not know msstream, on that code's streams.
///
/// - identify: returns the stream's identity, or nothing if work put on the stream now is
///   captured instead of run. Does not disturb the capture.
/// - visit: returns a guard. While it lives, the calling thread may use the runtime, whichever
///   device the thread has chosen and whatever other threads capture. The guard's end restores the
///   thread's device.
template <class R>
concept InteropRuntime = Runtime<R> && requires(R runtime, typename R::native_stream stream) {
  { runtime.identify(stream) } -> std::same_as<std::optional<ForeignStream>>;
  typename R::Visit;
  { runtime.visit() } -> std::same_as<typename R::Visit>;
};

}  // namespace msstream
