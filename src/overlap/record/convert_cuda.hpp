// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/record/buffers.hpp"
#include "overlap/record/cupti_cuda.hpp"
#include "overlap/record/event_writer.hpp"

#include <cstddef>
#include <cstdint>

namespace msstream::overlap::record {

/// Writes the records of a buffer, and returns how many of them were of an unknown kind. Calls of
/// `own_thread` are left out.
std::size_t convert(Cupti const& cupti,
                    Buffers::Filled buffer,
                    std::uint32_t own_thread,
                    EventWriter& writer);

}  // namespace msstream::overlap::record
