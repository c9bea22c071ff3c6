// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/runtime.hpp>

#include <concepts>
#include <cstdint>
#include <optional>

namespace msstream {

/// What tells a stream that msstream did not make from all others.
struct ForeignStream {
  std::uint64_t id;  ///< of no other stream of the program, before or after; a handle may be
  bool stays;        ///< it is there as long as the program, for all threads under the same handle
};

/// A runtime that may be called from code that knows nothing of msstream, on streams of its own.
///
/// - identify: nothing when what is put on the stream now is captured instead of run. Does not
///   disturb the capture.
/// - visit: a guard. While it lives, the calling thread may use the runtime whatever device it has
///   chosen and whatever others capture; then its device is again what it was.
template <class R>
concept InteropRuntime = Runtime<R> && requires(R runtime, typename R::native_stream stream) {
  { runtime.identify(stream) } -> std::same_as<std::optional<ForeignStream>>;
  typename R::Visit;
  { runtime.visit() } -> std::same_as<typename R::Visit>;
};

}  // namespace msstream
