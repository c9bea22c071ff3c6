// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/observing.hpp>

#include <cstddef>

/// Functions that forward to an observing runtime, and do nothing for other runtimes.
namespace msstream::detail::observe {

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
void host_uses(R& runtime, MemoryUse const& use) {
  if constexpr (ObservingRuntime<R>) {
    runtime.host_uses(use);
  }
}

/// Returns the operations that a launch of the graph runs; null if the runtime does not know them.
template <class R>
[[nodiscard]] OperationParts parts_of(R& runtime, typename R::native_graph graph) {
  if constexpr (requires { runtime.parts_of(graph); }) {
    return runtime.parts_of(graph);
  } else {
    return nullptr;
  }
}

/// A guard. While it lives, the calling thread's queries and waits are those of the dependency
/// tracker, which keeps an order that it has promised or looks for complete work. The program does
/// not rely on their results.
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

}  // namespace msstream::detail::observe
