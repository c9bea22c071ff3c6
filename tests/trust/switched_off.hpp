// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/mechanism.hpp"

namespace msstream::testing {

/// While the guard lives, one mechanism that keeps the order is off.
class SwitchedOff {
 public:
  explicit SwitchedOff(Mechanism mechanism) {
    switched_off_mechanism = static_cast<int>(mechanism);
  }
  ~SwitchedOff() { switched_off_mechanism = -1; }
  SwitchedOff(SwitchedOff const&) = delete;
  SwitchedOff& operator=(SwitchedOff const&) = delete;
};

}  // namespace msstream::testing
