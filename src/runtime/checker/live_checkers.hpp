// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msstream {
class Checker;
}  // namespace msstream

namespace msstream::detail {

/// The checkers that exist. Those that still exist when the program ends report their leaks then.
class LiveCheckers {
 public:
  static void add(Checker& checker);
  static void remove(Checker& checker) noexcept;
};

}  // namespace msstream::detail
