// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/read/byte_source.hpp"
#include "overlap/read/trace_event.hpp"

#include <functional>

namespace msstream::overlap {

/// Reads a Chrome trace, calls `take` for each event, and returns what the file says outside the
/// events. Stops early if the file says that it is a step trace of msstream: see
/// TraceFacts::format. A file that is a list of events may lack the end of the list.
///
/// Throws std::runtime_error with the file and the byte for broken JSON.
[[nodiscard]] TraceFacts read_trace_json(ByteSource& source,
                                         std::function<void(TraceEvent const&)> const& take);

/// The format of a step trace, as in TraceFacts::format.
inline constexpr std::string_view kStepTraceFormat = "msstream step trace";

}  // namespace msstream::overlap
