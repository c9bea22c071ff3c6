// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

namespace msstream::data::detail {

/// An allocator whose containers leave new elements uninitialised unless they are given a value: a
/// reader that writes all of them need not write zeros first.
template <class T>
struct UninitialisedAllocator : std::allocator<T> {
  template <class Other>
  struct rebind {
    using other = UninitialisedAllocator<Other>;
  };

  UninitialisedAllocator() = default;
  template <class Other>
  // NOLINTNEXTLINE(google-explicit-constructor): containers convert their allocators
  UninitialisedAllocator(UninitialisedAllocator<Other> const&) noexcept {}

  template <class Other>
  void construct(Other* at) noexcept {
    ::new (static_cast<void*>(at)) Other;
  }
  template <class Other, class... Arguments>
  void construct(Other* at, Arguments&&... arguments) {
    ::new (static_cast<void*>(at)) Other(std::forward<Arguments>(arguments)...);
  }
};

}  // namespace msstream::data::detail
