// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/transport.hpp"

#include <chrono>
#include <memory>

namespace msstream::comm::detail {

class MeetingPlace;

/// Returns the transport of a rank whose peers are threads of this process, on a runtime whose
/// streams have host threads of their own.
[[nodiscard]] std::shared_ptr<Transport> make_host_threads(
    std::shared_ptr<msstream::detail::Backend> runtime,
    std::shared_ptr<MeetingPlace> place,
    int rank,
    std::chrono::nanoseconds timeout);

}  // namespace msstream::comm::detail
