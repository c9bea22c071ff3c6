// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/comm/detail/any_communicator.hpp>
#include <msstream/step/data_parallel.hpp>

#include <source_location>

namespace msstream::detail {

/// Compares the parameters and options of all ranks, and gives the values of rank 0 to the
/// parameters and buffers of all others, except for frozen ones. Blocks the host until all ranks
/// have called it. Throws std::invalid_argument on all ranks, with the first difference, if they
/// differ.
void make_equal(Parameters<AnyRuntime> const& parameters,
                comm::detail::AnyCommunicator const& communicator,
                DataParallelOptions const& options,
                std::source_location issued_at);

}  // namespace msstream::detail
