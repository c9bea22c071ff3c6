// SPDX-License-Identifier: Apache-2.0
#include "comm/sockets/sockets.hpp"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>

namespace msstream::comm::detail {
namespace {

/// How long an attempt to connect waits for an answer.
constexpr std::int64_t kConnectSeconds = 2;

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

int Socket::own_port() const {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw std::runtime_error("a socket has no port: " + text_of_error(errno));
  }
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<sockaddr_in6 const*>(&address)->sin6_port
                   : reinterpret_cast<sockaddr_in const*>(&address)->sin_port);
}

std::string Socket::own_address() const {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  std::array<char, NI_MAXHOST> host{};
  auto* const own = reinterpret_cast<sockaddr*>(&address);
  if (::getsockname(descriptor_, own, &length) != 0 ||
      ::getnameinfo(own, length, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    throw std::runtime_error("a connection has no address: " + text_of_error(errno));
  }
  return host.data();
}

bool Socket::send_all(void const* bytes, std::size_t count) const {
  auto const* const from = static_cast<char const*>(bytes);
  for (std::size_t sent = 0; sent < count;) {
    auto const part = ::send(descriptor_, from + sent, count - sent, MSG_NOSIGNAL);
    if (part < 0 && errno == EINTR) {
      continue;
    }
    if (part <= 0) {
      return false;
    }
    sent += static_cast<std::size_t>(part);
  }
  return true;
}

bool Socket::receive_all(void* to, std::size_t count) const {
  for (std::size_t got = 0; got < count;) {
    auto const part = ::recv(descriptor_, static_cast<char*>(to) + got, count - got, 0);
    if (part < 0 && errno == EINTR) {
      continue;
    }
    if (part <= 0) {
      return false;
    }
    got += static_cast<std::size_t>(part);
  }
  return true;
}

void Socket::send_at_once() const {
  int const on = 1;
  ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

Socket listening_at(int port) {
  Socket listener(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  bool const is_v6 = listener.is_open();
  if (!is_v6) {
    listener = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  int const on = 1;
  int const off = 0;
  ::setsockopt(listener.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(static_cast<std::uint16_t>(port));
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = v6.sin6_port;
  if (is_v6) {
    ::setsockopt(listener.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  auto const* const address =
      is_v6 ? reinterpret_cast<sockaddr const*>(&v6) : reinterpret_cast<sockaddr const*>(&v4);
  if (::bind(listener.descriptor(), address, is_v6 ? sizeof(v6) : sizeof(v4)) != 0 ||
      ::listen(listener.descriptor(), SOMAXCONN) != 0) {
    throw std::runtime_error(
        fmt::format("cannot listen on port {}: {}", port, text_of_error(errno)));
  }
  return listener;
}

Socket connected_to(std::string const& host, int port, std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (int const error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
      error != 0) {
    why = ::gai_strerror(error);
    return {};
  }
  Socket made;
  for (auto const* address = found; address != nullptr && !made.is_open();
       address = address->ai_next) {
    Socket socket(::socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, 0));
    timeval const limit{kConnectSeconds, 0};
    ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (socket.is_open() &&
        ::connect(socket.descriptor(), address->ai_addr, address->ai_addrlen) == 0) {
      made = std::move(socket);
    } else {
      why = text_of_error(errno);
    }
  }
  ::freeaddrinfo(found);
  timeval const none{};
  ::setsockopt(made.descriptor(), SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
  return made;
}

std::string random_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

std::string text_of_error(int error) {
  return std::strerror(error);  // NOLINT(concurrency-mt-unsafe): glibc's is safe
}

}  // namespace msstream::comm::detail
