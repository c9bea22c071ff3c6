// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/mechanism.hpp"

namespace msstream::testing {

using msstream::detail::Mechanism;
using msstream::detail::works;

/// While the guard lives, one mechanism that keeps the order is off.
class SwitchedOff {
 public:
  explicit SwitchedOff(Mechanism mechanism) {
    msstream::detail::switched_off_mechanism = static_cast<int>(mechanism);
  }
  ~SwitchedOff() { msstream::detail::switched_off_mechanism = -1; }
  SwitchedOff(SwitchedOff const&) = delete;
  SwitchedOff& operator=(SwitchedOff const&) = delete;
};

}  // namespace msstream::testing
