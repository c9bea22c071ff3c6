// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msstream::detail {

/// The reason, used in error messages, for which a tensor that should have a gradient has none.
inline constexpr char const* kCutOff =
    "the loss does not depend on it, or an operation in between was called without the tape";

}  // namespace msstream::detail
