// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/require.hpp>
#include <msstream/step/gradient_tape.hpp>

namespace msstream::ops::detail {

/// Refuses an input to which an operation gives no gradient, if the tape would need one: it is a
/// result that the tape has recorded and that without_gradient() has not excluded. `input` and
/// `tape` may be null. Throws std::invalid_argument.
inline void refuse_result(AnyTape const* tape,
                          char const* operation,
                          char const* what,
                          Floats const* input) {
  require(tape == nullptr || input == nullptr || !tape->is_result(input->any()) ||
              !tape->wants_gradient(input->any()),
          "{}: {} is a result that the tape has recorded, and gets no gradient here; exclude it by "
          "tape.without_gradient(), or compute it on no_tape",
          operation,
          what);
}

}  // namespace msstream::ops::detail
