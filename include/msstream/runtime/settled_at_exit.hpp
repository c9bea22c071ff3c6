// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/home_process.hpp>

#include <cstdint>
#include <memory>

namespace msstream {

/// Which of the objects of a driver are settled first: the threads that use it, then the streams
/// that they have given work to.
enum class SettleOrder : std::uint8_t { threads, streams };

namespace detail {

using Settle = void (*)(void*) noexcept;
void settle_at_exit(std::weak_ptr<void> object, Settle settle, SettleOrder order);

}  // namespace detail

/// From here on the objects of drivers given to settle_at_exit() are settled by exit(), before the
/// destructors of static objects that are complete by now, and then left: see HomeProcess. By a
/// runtime whose driver has handlers of its own for the end of the process, after the driver has
/// registered them. Any number of calls from any thread.
void leave_drivers_at_exit();

/// Has `function(object)`, which captures nothing, called by exit() before the runtime's driver
/// ends, if the object still lives; never for a runtime that can be used as long as the process.
/// Not called when exit() is called from a stream's work or an operation's, which others may be
/// waiting for.
template <class R, class T, class F>
void settle_at_exit(std::shared_ptr<T> const& object, SettleOrder order, F) {
  if constexpr (life_of<R> == RuntimeLife::driver) {
    detail::settle_at_exit(
        object, [](void* settled) noexcept { F{}(*static_cast<T*>(settled)); }, order);
  }
}

}  // namespace msstream
