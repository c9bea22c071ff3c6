// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace msstream::dashboard {

/// A TCP connection to a port of 127.0.0.1, for tests that send bytes of their own.
class Client {
 public:
  explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    ::sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<::sockaddr*>(&address), sizeof address) != 0) {
      ::close(socket_);
      throw std::runtime_error("no connection");
    }
  }
  Client(Client const&) = delete;
  Client& operator=(Client const&) = delete;
  ~Client() { ::close(socket_); }

  /// Sends the bytes; returns false if the other end is closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      auto const sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) {
        return false;
      }
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  /// Returns all bytes until the other end closes the connection; those that came if it does not
  /// within `limit_ms`.
  std::string read_all(int limit_ms = 60'000) {
    std::string all;
    char buffer[4096];
    ::pollfd ready{socket_, POLLIN, 0};
    while (::poll(&ready, 1, limit_ms) > 0) {
      auto const count = ::recv(socket_, buffer, sizeof buffer, 0);
      if (count <= 0) {
        closed_ = true;
        break;
      }
      all.append(buffer, static_cast<std::size_t>(count));
    }
    return all;
  }
  /// Returns whether read_all() has seen the end of the connection.
  [[nodiscard]] bool closed() const noexcept { return closed_; }

 private:
  int socket_;
  bool closed_ = false;
};

inline std::string answer_of(int port, std::string_view request) {
  Client client(port);
  client.send(request);
  return client.read_all();
}

inline std::string get(int port, std::string_view path, std::string_view host = "localhost") {
  return answer_of(port, fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", path, host));
}

}  // namespace msstream::dashboard
