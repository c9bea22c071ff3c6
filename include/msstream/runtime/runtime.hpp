// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/closure.hpp>
#include <msstream/runtime/library_options.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace msstream {

/// Which work the device prefers when it has a choice; a backend without priorities runs all alike.
enum class StreamPriority : std::uint8_t { low, normal, high };

/// Timed events can be subtracted; untimed ones are cheaper to record and to wait for.
enum class EventTiming : std::uint8_t { untimed, timed };

/// Which way a copy goes.
enum class CopyKind : std::uint8_t { h2d, d2h, d2d };

/// Device memory as the runtime sees it.
struct MemoryInfo {
  std::size_t free_bytes;
  std::size_t total_bytes;
};

/// A backend: the least that CUDA gives, with CUDA's meaning. Every function is thread-safe and
/// reports failure by an exception, except the destroying ones, which do not throw.
///
/// - A stream runs its work in order; streams run beside each other.
/// - record: the event stands for the work that the stream has now, and no longer for what it stood
/// for before.
/// - wait: the stream's later work waits for what the event stands for at this call. An event that
/// was never recorded
///   stands for nothing.
/// - destroying a stream or an event with work in flight does not block, and the work still runs.
/// - allocations are aligned to 256 bytes; the allocate and free functions may block and are kept
/// off hot paths.
/// - copies and fills return before they are done; host memory must be pinned, and stay as it is
/// until then.
/// - launch calls `function(stream_ref)` on the calling thread, which puts work on the stream.
/// - query, synchronize rethrow failures of the work itself.
template <class R>
concept Runtime = requires(R runtime,
                           typename R::native_stream stream,
                           typename R::native_event event,
                           typename R::native_libraries libraries,
                           void* memory,
                           void const* source,
                           std::size_t bytes,
                           Closure closure) {
  typename R::stream_ref;
  { R::name } -> std::convertible_to<std::string_view>;
  { runtime.create_stream(StreamPriority::normal) } -> std::same_as<typename R::native_stream>;
  { runtime.destroy_stream(stream) }
  noexcept;
  {runtime.synchronize_stream(stream)};
  { runtime.create_event(EventTiming::untimed) } -> std::same_as<typename R::native_event>;
  { runtime.destroy_event(event) }
  noexcept;
  {runtime.record(event, stream)};
  {runtime.wait(stream, event)};
  { runtime.query(event) } -> std::same_as<bool>;
  {runtime.synchronize(event)};
  { runtime.elapsed_ns(event, event) } -> std::same_as<double>;
  { runtime.allocate_device(bytes) } -> std::same_as<void*>;
  { runtime.free_device(memory, bytes) }
  noexcept;
  { runtime.allocate_pinned(bytes) } -> std::same_as<void*>;
  { runtime.free_pinned(memory, bytes) }
  noexcept;
  { runtime.memory_info() } -> std::same_as<MemoryInfo>;
  {runtime.copy(memory, source, bytes, CopyKind::h2d, stream)};
  {runtime.fill(memory, std::uint8_t{}, bytes, stream)};
  {runtime.call_host(stream, std::move(closure))};
  { runtime.create_libraries(LibraryOptions{}) } -> std::same_as<typename R::native_libraries>;
  { runtime.destroy_libraries(libraries) }
  noexcept;
  { runtime.ref(stream, libraries) } -> std::same_as<typename R::stream_ref>;
};

/// Whether work moves on while the host does other things; not so on a simulated device.
template <class R>
inline constexpr bool runs_beside_host = true;
template <class Decorator>
  requires requires {
    typename Decorator::inner_type;
  }
inline constexpr bool runs_beside_host<Decorator> =
    runs_beside_host<typename Decorator::inner_type>;

/// What the time between two timed events has on top of an operation's own, in ns, when all of it
/// was launched before the first event was reached.
template <class R>
inline constexpr double timed_on_top_ns = 0;
template <class Decorator>
  requires requires {
    typename Decorator::inner_type;
  }
inline constexpr double timed_on_top_ns<Decorator> =
    timed_on_top_ns<typename Decorator::inner_type>;

}  // namespace msstream
