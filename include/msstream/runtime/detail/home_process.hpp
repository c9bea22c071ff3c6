// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/runtime.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace msstream::detail {

/// The process that made an object. Distinguishes it from a child of fork(), which has a copy of
/// the object.
///
/// A child has none of its parent's threads, which the object may need, and its copies of the
/// object's locks may be held by threads that do not exist there. Such an object is "left": it
/// refuses to be used, and its destructor touches nothing. The objects of a driver are left, too,
/// when exit() ends the driver.
///
/// Memory ordering: none is needed, because fork() copies the memory of the thread that calls it,
/// and a driver is ended only after waiting for all threads that it knows of.
class HomeProcess {
 public:
  explicit HomeProcess(RuntimeLife life = RuntimeLife::process) noexcept;

  /// Returns whether the object must not be used: because it is a copy in a child of fork(), or
  /// because its driver has ended.
  [[nodiscard]] bool is_left() const noexcept {
    return lives_[index_].load(std::memory_order_relaxed) != made_in_;
  }
  /// Throws std::logic_error with the reason if the object is a copy in a child of fork(), or if
  /// its driver has ended.
  void require_here() const {
    if (is_left()) [[unlikely]] {
      throw_left();
    }
  }
  /// Throws the std::logic_error that reports a use of the library in a child of fork().
  [[noreturn]] static void throw_forked();

  /// Returns whether this process is a child, by fork(), of one that has used the library.
  [[nodiscard]] static bool is_forked() noexcept;
  /// Marks all objects that call drivers as unusable, because the drivers are about to end.
  static void leave_drivers() noexcept;

  /// Keeps an object for ever, reachable for leak checkers, because it must not be destroyed in a
  /// child of fork() or after its driver has ended.
  static void keep(std::shared_ptr<void const> object) noexcept;

 private:
  [[noreturn]] void throw_left() const;

  /// A counter for each RuntimeLife: twice the number of forks so far, plus 1 if the driver has
  /// ended.
  static std::atomic<std::uint32_t> lives_[2];

  std::uint32_t index_;
  std::uint32_t made_in_;
};

/// Makes a shared object. In a child of fork(), or after the end of the driver of `home`, the
/// object is kept for ever instead of being destroyed.
template <class T, class... Arguments>
[[nodiscard]] std::shared_ptr<T> make_at_home(HomeProcess home, Arguments&&... arguments) {
  return std::shared_ptr<T>(new T(std::forward<Arguments>(arguments)...), [home](T* object) {
    if (home.is_left()) [[unlikely]] {
      HomeProcess::keep(std::shared_ptr<void const>(std::shared_ptr<void>(), object));
    } else {
      delete object;
    }
  });
}

}  // namespace msstream::detail
