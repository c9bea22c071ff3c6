// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/operation.hpp>
#include <msstream/runtime/runtime.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

namespace msstream {

/// A runtime that is informed about the memory that operations use and about the owners of memory,
/// in order to check, to simulate, or to inject failures. Other runtimes pay nothing for it.
///
/// - declare: called on the issuing thread, while the declared memory is held. The handle that it
///   returns is passed to operation_begins.
/// - operation_begins, operation_ends: called before and after the work, on the thread that
///   launches it, after its waits. operation_ends receives whether the work threw.
/// - operation_given_up: called instead of operation_begins and operation_ends, or after an
///   operation_begins that threw. The declared operation is not launched.
/// - foreign_work_begins, foreign_work_ends: enclose a period in which work that bypasses issue()
///   is put on the stream and may use the memory.
/// - memory_pooled: an allocator has taken memory from the runtime, to give it out in parts.
///   memory_taken, memory_returned: a part was given out, or was returned.
/// - host_uses: the host is about to read or write pinned memory.
template <class R>
concept ObservingRuntime = Runtime<R> && requires(R runtime,
                                                  typename R::native_stream stream,
                                                  Operation operation,
                                                  OperationHandle const& handle,
                                                  void const* memory,
                                                  std::size_t bytes,
                                                  MemoryUse const& use) {
  { runtime.declare(std::move(operation)) } -> std::same_as<OperationHandle>;
  {runtime.operation_begins(handle, stream)};
  { runtime.operation_ends(handle, stream, Outcome::failed) }
  noexcept;
  { runtime.operation_given_up(handle) }
  noexcept;
  {runtime.foreign_work_begins(handle, stream)};
  {runtime.foreign_work_ends(handle, stream)};
  {runtime.memory_pooled(memory, bytes)};
  {runtime.memory_taken(memory, bytes)};
  { runtime.memory_returned(memory, bytes) }
  noexcept;
  {runtime.host_uses(use)};
};

/// An observing runtime that also follows the order in which operations are issued, independent of
/// the thread and the time of their launch.
///
/// - operation_reserved: called when the operation gets its position, while no other operation
///   that uses the same memory gets one. Returns false if the operation must not be issued.
///   operation_issued is called later, at a point where it may throw.
/// - position_marked: the position gets assigned all work on the stream so far. position_launched:
///   all work of the position has been launched; called before the threads that wait for the launch
///   continue.
/// - stream_follows: everything issued to the stream from now on follows the positions.
/// - host_follows: the host has waited for the work of the position, or the program has queried it
///   and found it complete.
/// - stream_named: gives the name under which reports show the stream.
template <class R>
concept OrderObservingRuntime = ObservingRuntime<R> &&
    requires(R runtime,
             typename R::native_stream stream,
             OperationHandle const& handle,
             TrackedOrder const& order,
             void const* tracker,
             order::Position position,
             std::span<order::Position const> positions,
             std::string_view name) {
  { runtime.operation_reserved(handle, stream, order) } -> std::same_as<bool>;
  {runtime.operation_issued(handle)};
  {runtime.position_marked(stream, tracker, position)};
  { runtime.position_launched(tracker, position) }
  noexcept;
  {runtime.stream_follows(stream, tracker, positions)};
  {runtime.host_follows(tracker, position)};
  {runtime.stream_named(stream, name)};
};

/// Whether the host must ask the runtime, by query() or synchronize(), whether work is complete
/// before it uses the results in memory. True for a runtime that checks or simulates, because it
/// learns only from such calls what the host may rely on.
template <class R>
inline constexpr bool must_be_asked = false;
template <class Decorator>
  requires requires {
    typename Decorator::inner_type;
  }
inline constexpr bool must_be_asked<Decorator> = must_be_asked<typename Decorator::inner_type>;

}  // namespace msstream
