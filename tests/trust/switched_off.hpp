// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/mechanism.hpp"

namespace msstream::testing {

using msstream::detail::Mechanism;
using msstream::detail::works;

/// A guard that switches off one mechanism of msstream's ordering while it lives.
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
