// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/hook.hpp"

#include <msstream/order/position.hpp>

#include <cstdint>
#include <utility>

namespace msstream::detail {

/// A call by which the host launches or orders work.
struct HostCall {
  enum Kind : std::uint8_t {
    launch,       ///< the operation at `position` is launched; only while spans are recorded
    wait,         ///< `stream` gets a wait for all work up to `position`
    synchronize,  ///< the host waits for all work up to `position`
  };
  Kind kind;
  order::Position position;
  order::StreamIndex stream = 0;
};

/// Observes the calls of the host, on the threads that make them. Thread-safe.
class HostCallObserver {
 public:
  HostCallObserver() = default;
  HostCallObserver(HostCallObserver const&) = delete;
  HostCallObserver& operator=(HostCallObserver const&) = delete;
  virtual ~HostCallObserver() = default;

  /// Returns the host's time in ns.
  [[nodiscard]] virtual double now_ns() const noexcept = 0;
  /// Takes a call that began at `begin_ns` and has just ended.
  virtual void called(HostCall const& call, double begin_ns) noexcept = 0;
};

/// Runs `work`. If the hook is on and `work` does not throw, tells the observer about the call.
template <class Work>
void observe_call(Hook<HostCallObserver> const& hook, HostCall const& call, Work&& work) {
  auto const observer = hook.current();
  auto const begin_ns = observer == nullptr ? 0 : observer->now_ns();
  std::forward<Work>(work)();
  if (observer != nullptr) [[unlikely]] {
    observer->called(call, begin_ns);
  }
}

}  // namespace msstream::detail
