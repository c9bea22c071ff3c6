// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/operation.hpp>
#include <msstream/runtime/runtime.hpp>

#include <cstddef>
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
