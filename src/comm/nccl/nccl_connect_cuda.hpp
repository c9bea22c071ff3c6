// SPDX-License-Identifier: Apache-2.0
#pragma once

#if MSSTREAM_NCCL

#include "comm/nccl/nccl_calls_cuda.hpp"
#include "comm/peers.hpp"

#include <msstream/comm/detail/any_communicator.hpp>
#include <msstream/runtime/detail/backend.hpp>

#include <nccl.h>

#include <chrono>
#include <memory>
#include <string>

namespace msstream::comm::detail {

/// Returns what NCCL says about a result. `comm` may be null.
[[nodiscard]] std::string text_of(ncclResult_t result, ncclComm_t comm);

/// Makes the communicator of this rank, whose calls block, and connects the GPUs, so that most
/// later collectives need not: runs a collective of each kind. Blocks until all ranks have called
/// it. `calls` has the rank, the size and the scratch memory, and gets the communicator.
///
/// Throws the failure of the peers when they fail, and std::runtime_error if NCCL fails, if the
/// settings that NCCL gets are not those of rank 0, or if it is not done by the deadline. No
/// communicator remains then.
void connect(NcclCalls& calls,
             std::shared_ptr<msstream::detail::Backend> const& runtime,
             Peers& peers,
             CommunicatorSettings const& settings,
             std::chrono::steady_clock::time_point deadline);

}  // namespace msstream::comm::detail

#endif
