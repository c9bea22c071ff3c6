// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/peers.hpp"
#include "comm/process_mesh.hpp"
#include "comm/transport.hpp"

#include <chrono>
#include <memory>

namespace msstream::comm::detail {

/// Returns the transport of a rank whose peers are other processes, on a runtime whose streams have
/// host threads of their own. Their collectives go over TCP. Throws PeerLost if a rank does not
/// come within the timeout.
[[nodiscard]] std::shared_ptr<Transport> make_host_processes(
    std::shared_ptr<msstream::detail::Backend> runtime,
    std::shared_ptr<PeersOfProcesses> peers,
    MeshAddress const& address,
    std::chrono::nanoseconds timeout);

}  // namespace msstream::comm::detail
