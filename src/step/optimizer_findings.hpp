// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "step/owned_parameters.hpp"

#include <msstream/base/format.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <fmt/core.h>

#include <string>

/// The lines of an optimizer's messages about its parameters.
namespace msstream::detail {

/// Appends a line to `found` if a parameter or table has no gradient on the tape.
inline void add_if_without_gradient(std::string& found,
                                    char const* what,
                                    std::string const& name,
                                    AnyTensor const& tensor,
                                    AnyTape const& tape) {
  if (!tape.has_gradient(tensor)) {
    found += fmt::format("\n  {} \"{}\" of shape {} has no gradient: {}",
                         what,
                         name,
                         tensor.shape(),
                         tape.why_no_gradient(tensor));
  }
}

/// Appends a line to `found` for a parameter that another optimizer has updated by the same
/// gradients.
inline void add_moved(std::string& found,
                      OwnedParameters::Parameter const& mine,
                      OwnedParameters::Parameter const& others) {
  found += fmt::format(
      "\n  {} \"{}\" of shape {} is in two optimizers: another one, which has it as \"{}\" of "
      "shape {}, has moved it since the last backward()",
      mine.is_table ? "table" : "parameter",
      mine.name,
      mine.shape,
      others.name,
      others.shape);
}

}  // namespace msstream::detail
