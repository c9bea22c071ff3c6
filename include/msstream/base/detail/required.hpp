// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

namespace msstream::detail {

/// A member of an aggregate that every initializer must name: leaving it out does not compile,
/// while a member of type T would silently become 0. In all other respects it acts as a T.
template <class T>
class Required {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): stands in for a T
  constexpr Required(T value) noexcept : value_(value) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr operator T() const noexcept { return value_; }

 private:
  T value_;
};

}  // namespace msstream::detail
