// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/operation.hpp>
#include <msstream/runtime/runtime.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace msstream {

/// A runtime that wants to know what operations use and whose memory is whose: to check, to
/// simulate, to fail. Others pay nothing for it.
///
/// - declare: on the issuing thread, while the memory named is held. The handle goes to
/// operation_begins.
/// - operation_begins, operation_ends: around the work, on the thread that launches it, after its
/// waits. The end is told whether the work threw.
/// - operation_given_up: instead of both, or after a begin that threw. What was declared is not
/// launched.
/// - foreign_work_begins, foreign_work_ends: between them work is put on the stream past issue()
/// that may use the memory.
/// - memory_pooled: an allocator has taken memory from the runtime to give it out in parts.
/// memory_taken, memory_returned: a part is given out, or is back.
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

/// An observing runtime that follows the order in which operations are issued, too, whatever thread
/// launches them when.
///
/// - operation_reserved: where the operation gets its position, while nothing else that uses the
/// same memory does. False: it is not to be issued. operation_issued follows, where it may throw.
/// - position_marked: a position that stands for all that is on the stream. position_launched:
/// nothing more is launched for the position; before those go on who wait for that.
/// - stream_follows: what is issued to the stream from now on follows the positions.
/// - host_follows: the host has waited for the position, or found it complete when the program
/// asked.
/// - stream_named: whose the stream is.
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

/// Whether the host has to ask a runtime what is over, by query() or synchronize(), before it uses
/// what it finds in memory: one that checks or simulates learns only so what the host may rely on.
template <class R>
inline constexpr bool must_be_asked = false;
template <class Decorator>
  requires requires {
    typename Decorator::inner_type;
  }
inline constexpr bool must_be_asked<Decorator> = must_be_asked<typename Decorator::inner_type>;

/// What an operation carries for a runtime that looks on: a handle, or nothing at all.
struct NoOperation {};
template <Runtime R>
using Observed = std::conditional_t<ObservingRuntime<R>, OperationHandle, NoOperation>;

/// The calls of an observing runtime; nothing for others.
namespace observe {

template <Runtime R>
void memory_pooled(R& runtime, void const* memory, std::size_t bytes) {
  if constexpr (ObservingRuntime<R>) {
    runtime.memory_pooled(memory, bytes);
  }
}
template <Runtime R>
void memory_taken(R& runtime, void const* memory, std::size_t bytes) {
  if constexpr (ObservingRuntime<R>) {
    runtime.memory_taken(memory, bytes);
  }
}
template <Runtime R>
void memory_returned(R& runtime, void const* memory, std::size_t bytes) noexcept {
  if constexpr (ObservingRuntime<R>) {
    runtime.memory_returned(memory, bytes);
  }
}
template <Runtime R>
void foreign_work_ends(R& runtime, Observed<R> const& operation, typename R::native_stream stream) {
  if constexpr (ObservingRuntime<R>) {
    runtime.foreign_work_ends(operation, stream);
  }
}
template <Runtime R>
void host_uses(R& runtime, MemoryUse const& use) {
  if constexpr (ObservingRuntime<R>) {
    runtime.host_uses(use);
  }
}

/// False: it is not to be issued, and operation_issued() throws.
template <Runtime R>
[[nodiscard]] bool operation_reserved(R& runtime,
                                      Observed<R> const& operation,
                                      typename R::native_stream stream,
                                      TrackedOrder const& order) {
  if constexpr (OrderObservingRuntime<R>) {
    return runtime.operation_reserved(operation, stream, order);
  } else {
    return true;
  }
}
/// After operation_reserved(), without the locks that are held there.
template <Runtime R>
void operation_issued(R& runtime, Observed<R> const& operation) {
  if constexpr (OrderObservingRuntime<R>) {
    runtime.operation_issued(operation);
  }
}
template <Runtime R>
void stream_named(R& runtime, typename R::native_stream stream, std::string_view name) {
  if constexpr (OrderObservingRuntime<R>) {
    runtime.stream_named(stream, name);
  }
}
/// What a launch of the graph does; null where nobody knows.
template <class R>
[[nodiscard]] OperationParts parts_of(R& runtime, typename R::native_graph graph) {
  if constexpr (requires { runtime.parts_of(graph); }) {
    return runtime.parts_of(graph);
  } else {
    return nullptr;
  }
}

/// While the guard lives, the calling thread asks the runtime and waits on the tracker's account:
/// to do what it has promised, or to see what is over. The program does not rely on that.
class OfTracker {
 public:
  OfTracker() noexcept { ++depth_; }
  ~OfTracker() { --depth_; }
  OfTracker(OfTracker const&) = delete;
  OfTracker& operator=(OfTracker const&) = delete;
  [[nodiscard]] static bool open() noexcept { return depth_ != 0; }

 private:
  static inline constinit thread_local int depth_ = 0;
};
struct OfNobody {
  OfNobody() noexcept {}  // NOLINT(modernize-use-equals-default): so that a guard is no unused one
};
template <Runtime R>
using OnTrackersAccount = std::conditional_t<OrderObservingRuntime<R>, OfTracker, OfNobody>;

/// An operation from its declaration to the end of its work; gives it up if it goes before that.
template <Runtime R>
class Declared {
 public:
  Declared(R&, NoOperation) noexcept {}
  template <class Work>
  void run(typename R::native_stream, Work&& work) {
    std::forward<Work>(work)();
  }
};
template <ObservingRuntime R>
class Declared<R> {
 public:
  /// The runtime must outlive it.
  Declared(R& runtime, OperationHandle operation) noexcept
      : runtime_(&runtime), operation_(std::move(operation)) {}
  Declared(Declared&& other) noexcept
      : runtime_(other.runtime_), operation_(std::exchange(other.operation_, nullptr)) {}
  Declared& operator=(Declared&&) = delete;
  ~Declared() {
    if (operation_ != nullptr) {
      runtime_->operation_given_up(operation_);
    }
  }

  template <class Work>
  void run(typename R::native_stream stream, Work&& work) {
    runtime_->operation_begins(operation_, stream);
    auto const operation = std::exchange(operation_, nullptr);
    try {
      std::forward<Work>(work)();
    } catch (...) {
      runtime_->operation_ends(operation, stream, Outcome::failed);
      throw;
    }
    runtime_->operation_ends(operation, stream, Outcome::launched);
  }

 private:
  R* runtime_;
  OperationHandle operation_;
};

}  // namespace observe
}  // namespace msstream
