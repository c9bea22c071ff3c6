// SPDX-License-Identifier: Apache-2.0
#include "dashboard/listener.hpp"

#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace msstream::dashboard {

namespace {

std::string reason_of(int error) {
  return std::error_code(error, std::generic_category()).message();
}

}  // namespace

Listener::Listener(int port)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  if (socket_ < 0) {
    throw std::runtime_error(fmt::format("port {}: no socket: {}", port, reason_of(errno)));
  }
  try {
    bind_and_listen(port);
  } catch (...) {
    ::close(socket_);
    throw;
  }
}

void Listener::bind_and_listen(int port) {
  int const yes = 1;
  ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  ::sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ::socklen_t bytes = sizeof address;
  auto* const generic = reinterpret_cast<::sockaddr*>(&address);
  if (::bind(socket_, generic, bytes) != 0 || ::listen(socket_, 16) != 0) {
    int const error = errno;
    throw std::runtime_error(
        error == EADDRINUSE
            ? fmt::format(
                  "port {} of 127.0.0.1 is in use by another program; expected a free port, "
                  "or 0 to choose one",
                  port)
            : fmt::format("port {} of 127.0.0.1: {}", port, reason_of(error)));
  }
  ::getsockname(socket_, generic, &bytes);
  port_ = ntohs(address.sin_port);
}

Listener::~Listener() {
  if (owns_) {
    ::close(socket_);
  }
}

}  // namespace msstream::dashboard
