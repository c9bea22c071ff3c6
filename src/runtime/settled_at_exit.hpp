// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/detail/home_process.hpp>

#include <cstdint>
#include <memory>

namespace msstream::detail {

/// The order in which exit() calls the functions passed to settle_at_exit(): first those for the
/// threads that use a driver, then those for the streams to which the threads have given work, then
/// those for threads inside libraries that end what the streams' work has used.
enum class SettleOrder : std::uint8_t { threads, streams, libraries };

using Settle = void (*)(void*) noexcept;
void settle_at_exit(std::weak_ptr<void> object, Settle settle, SettleOrder order);

/// Makes exit() call the functions passed to settle_at_exit(), and then mark all objects of drivers
/// as left (see HomeProcess). Both happen before the destructors of static objects that are
/// complete at this call. Called by a runtime whose driver has its own handlers for the end of the
/// process, after the driver has registered them. May be called any number of times, from any
/// thread.
void leave_drivers_at_exit();

/// Makes exit() call `function(object)`, for a `function` that captures nothing, before the
/// runtime's driver ends, if the object still exists. Never called for a runtime that can be used
/// as long as the process. Not called if exit() is called from a stream's work or an operation's
/// work, for which other threads may be waiting.
template <class T, class F>
void settle_at_exit(RuntimeLife life, std::shared_ptr<T> const& object, SettleOrder order, F) {
  if (life == RuntimeLife::driver) {
    settle_at_exit(
        object, [](void* settled) noexcept { F{}(*static_cast<T*>(settled)); }, order);
  }
}

}  // namespace msstream::detail
