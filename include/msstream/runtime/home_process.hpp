// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace msstream {

/// How long a runtime can be used: as long as the process, or until exit() takes its driver down,
/// which may be before the destructors of static objects run.
enum class RuntimeLife : std::uint8_t { process, driver };

template <class R>
inline constexpr RuntimeLife life_of = RuntimeLife::process;
template <class Decorator>
  requires requires {
    typename Decorator::inner_type;
  }
inline constexpr RuntimeLife life_of<Decorator> = life_of<typename Decorator::inner_type>;

/// The process that made an object, to tell it from a child of fork() that has a copy.
///
/// The child has none of its parent's threads, which the object may need, and the object's locks as
/// they were, held by threads that are not there. An object that is left so refuses to be used, and
/// its destructor touches nothing. An object of a driver is left, too, when exit() ends the driver.
///
/// Memory ordering: none is needed, because fork() copies the memory of the thread that calls it,
/// and whoever ends a driver has waited for all threads that it knows of.
class HomeProcess {
 public:
  explicit HomeProcess(RuntimeLife life = RuntimeLife::process) noexcept;

  /// Whether the object is a copy in a child of fork(), or its driver has ended.
  [[nodiscard]] bool is_left() const noexcept {
    return lives_[index_].load(std::memory_order_relaxed) != made_in_;
  }
  /// Throws std::logic_error, which says why, where the object is left.
  void require_here() const {
    if (is_left()) [[unlikely]] {
      throw_left();
    }
  }
  /// Throws the error that a child of fork() gets.
  [[noreturn]] static void throw_forked();

  /// Whether the process is a child of fork() of one in which the library was used.
  [[nodiscard]] static bool is_forked() noexcept;
  /// Leaves all objects of drivers, which are about to end.
  static void leave_drivers() noexcept;

  /// Keeps an object of a left process for ever, where leak checkers find it.
  static void keep(std::shared_ptr<void const> object) noexcept;

 private:
  [[noreturn]] void throw_left() const;

  /// By RuntimeLife: twice the number of forks so far, plus 1 when the driver has ended.
  static std::atomic<std::uint32_t> lives_[2];

  std::uint32_t index_;
  std::uint32_t made_in_;
};

/// std::make_shared() of an object that is kept as it is, in place of being destroyed, when its
/// process is left.
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

}  // namespace msstream
