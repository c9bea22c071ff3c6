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
/// waits. If operation_begins throws, the work is not launched, and nothing ends.
/// The end is told whether the work threw.
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
  {runtime.foreign_work_begins(handle, stream)};
  {runtime.foreign_work_ends(handle, stream)};
  {runtime.memory_pooled(memory, bytes)};
  {runtime.memory_taken(memory, bytes)};
  { runtime.memory_returned(memory, bytes) }
  noexcept;
  {runtime.host_uses(use)};
};

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

/// Runs the work of an operation between its beginning and its end.
template <Runtime R, class Work>
void run(R& runtime, Observed<R> const& operation, typename R::native_stream stream, Work&& work) {
  if constexpr (ObservingRuntime<R>) {
    runtime.operation_begins(operation, stream);
    try {
      std::forward<Work>(work)();
    } catch (...) {
      runtime.operation_ends(operation, stream, Outcome::failed);
      throw;
    }
    runtime.operation_ends(operation, stream, Outcome::launched);
  } else {
    std::forward<Work>(work)();
  }
}

}  // namespace observe
}  // namespace msstream
