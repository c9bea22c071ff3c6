// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>

namespace msstream::detail {

/// Returns the object of type T that this process has, which is made at the first call. It is never
/// destroyed, because handlers of exit() and destructors of static objects use it. A child of
/// fork() gets an object of its own: locks of the parent's may be held by threads that the child
/// does not have. T has a HomeProcess named `home`.
template <class T>
[[nodiscard]] T& of_this_process() {
  static std::atomic<T*> of_process{new T};
  auto* object = of_process.load();
  if (object->home.is_left()) {
    auto fresh = std::make_unique<T>();
    if (of_process.compare_exchange_strong(object, fresh.get())) {
      object = fresh.release();
    }
  }
  return *object;
}

}  // namespace msstream::detail
