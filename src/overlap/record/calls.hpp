// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msstream::overlap::record {

/// Whether a call of the runtime says nothing about streams: such calls are not recorded, since
/// frameworks make some of them before each launch.
[[nodiscard]] bool is_uninteresting(std::string_view call);

/// Whether a call of the driver issues work, waits, or holds up the host: only these are recorded.
[[nodiscard]] bool is_interesting(std::string_view call);

}  // namespace msstream::overlap::record
