// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/transport.hpp"

#include <msstream/comm/detail/any_communicator.hpp>

#include <memory>

namespace msstream::comm::detail {

class Peers;

/// Returns whether the library is built with NCCL.
[[nodiscard]] bool has_nccl() noexcept;

/// Returns the transport of NCCL between GPUs. Blocks the host until all ranks have called it.
/// Throws PeerLost if one does not within the timeout or is lost, and std::runtime_error if NCCL
/// fails. Only for builds with NCCL.
[[nodiscard]] std::shared_ptr<Transport> make_nccl(
    std::shared_ptr<msstream::detail::Backend> runtime,
    std::shared_ptr<Peers> peers,
    CommunicatorSettings const& settings);

}  // namespace msstream::comm::detail
