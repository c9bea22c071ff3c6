// SPDX-License-Identifier: Apache-2.0
// The server in a build without libmicrohttpd.
#if !MSSTREAM_HAS_MICROHTTPD
#include "dashboard/board.hpp"
#include "dashboard/server.hpp"

#include <stdexcept>

namespace msstream::dashboard {

class Server::Impl {};

bool Server::is_available() noexcept {
  return false;
}

Server::Server(std::shared_ptr<Board> /*board*/, int /*port*/, ServerLimits const& /*limits*/) {
  throw std::runtime_error(
      "this build has no dashboard: it was configured without libmicrohttpd 0.9.71 or newer");
}

Server::~Server() = default;

int Server::port() const noexcept {
  return 0;
}

std::string Server::url() const {
  return {};
}

}  // namespace msstream::dashboard

#endif
