// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msstream {
class Checker;
}  // namespace msstream

namespace msstream::detail {

/// The list of all existing checkers. A checker that still exists when the program ends reports its
/// leaks at that time.
class LiveCheckers {
 public:
  static void add(Checker& checker);
  static void remove(Checker& checker) noexcept;
};

}  // namespace msstream::detail
