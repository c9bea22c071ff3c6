// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/closure.hpp>
#include <msstream/runtime/detail/any_runtime.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace msstream {

/// The priority of a stream's work where the device has a choice. A backend without priorities
/// treats all streams alike.
enum class StreamPriority : std::uint8_t { low, normal, high };

/// The kind of an event. The time between two timed events can be measured; untimed events are
/// cheaper to record and to wait for.
enum class EventTiming : std::uint8_t { untimed, timed };

/// The direction of a copy.
enum class CopyKind : std::uint8_t { h2d, d2h, d2d };

/// The amounts of device memory that the runtime reports.
struct MemoryInfo {
  std::size_t free_bytes;   ///< not in use by any process
  std::size_t total_bytes;  ///< of the device
};

namespace detail {

/// A type with the functions that the concept Runtime requires.
template <class R>
concept HasFunctionsOfRuntime = requires(R runtime,
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

}  // namespace detail

/// A backend: the minimum that CUDA provides, with CUDA's meaning. Every function is thread-safe
/// and reports failure by an exception, except the functions that destroy or free, which do not
/// throw.
///
/// - A stream runs its work in order; streams run concurrently.
/// - record: the event covers the work on the stream at this call, and no longer that of earlier
///   records.
/// - wait: the stream's later work waits for the work that the event covers at this call. An event
///   that was never recorded covers nothing.
/// - Destroying a stream or an event with work in flight does not block, and the work still runs.
/// - Allocations are aligned to 256 bytes. The functions that allocate and free may block and are
///   kept off hot paths.
/// - Copies and fills return before they are complete. Host memory must be pinned, and must not
///   change until then.
/// - ref: makes the stream_ref with which a closure, called on the launching thread, puts work on
///   the stream.
/// - query and synchronize rethrow failures of the work itself.
template <class R>
concept Runtime = std::same_as<R, detail::AnyRuntime> || detail::HasFunctionsOfRuntime<R>;

/// The period in which a runtime can be used: as long as the process exists, or until exit() ends
/// its driver, which may happen before the destructors of static objects run.
enum class RuntimeLife : std::uint8_t { process, driver };

/// The period in which a runtime of type R can be used, by default as long as the process exists.
template <class R>
inline constexpr RuntimeLife life_of = RuntimeLife::process;
template <class Decorator>
  requires requires {
    typename Decorator::inner_type;
  }
inline constexpr RuntimeLife life_of<Decorator> = life_of<typename Decorator::inner_type>;

/// Whether the work of a runtime R advances while the host does other things; false on a simulated
/// device.
template <class R>
inline constexpr bool runs_beside_host = true;
template <class Decorator>
  requires requires {
    typename Decorator::inner_type;
  }
inline constexpr bool runs_beside_host<Decorator> =
    runs_beside_host<typename Decorator::inner_type>;

/// The time between two timed events in excess of the duration of the operation between them, in
/// ns, if the whole operation was launched before the device reached the first event.
template <class R>
inline constexpr double timed_on_top_ns = 0;
template <class Decorator>
  requires requires {
    typename Decorator::inner_type;
  }
inline constexpr double timed_on_top_ns<Decorator> =
    timed_on_top_ns<typename Decorator::inner_type>;

}  // namespace msstream
