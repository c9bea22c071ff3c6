// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/comm/detail/any_communicator.hpp>
#include <msstream/step/data_parallel.hpp>

#include <functional>
#include <source_location>

namespace msstream::detail {

/// Compares the parameters and options of all ranks, and gives the values of rank 0 to the
/// parameters and buffers of all others, except for frozen ones. Blocks the host until all ranks
/// have called it. Throws on all ranks if they differ, std::invalid_argument with the first
/// difference, and if `check()`, which looks at what one rank has, throws on some: see
/// checked_on_all().
void make_equal(Parameters<AnyRuntime> const& parameters,
                comm::detail::AnyCommunicator const& communicator,
                DataParallelOptions const& options,
                std::function<void()> const& check,
                std::source_location issued_at);

}  // namespace msstream::detail
