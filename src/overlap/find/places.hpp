// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

/// The places of a program at which calls were made.
namespace msstream::overlap {

/// Returns the innermost range of a call's thread, of any kind, in which the call was made; kNone
/// if there is none.
[[nodiscard]] Index innermost_range(Recording const& recording, Index call);

/// Returns the innermost range of NVTX or of the user in which a call was made, which says more
/// about the place than an operation of a framework; without any, the innermost operation.
[[nodiscard]] Index named_range(Recording const& recording, Index call);

}  // namespace msstream::overlap
