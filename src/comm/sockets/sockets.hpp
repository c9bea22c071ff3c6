// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace msstream::comm::detail {

/// The owner of a TCP socket, or of none.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) noexcept : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();

  [[nodiscard]] bool is_open() const noexcept { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Returns the port of this end of the connection, or at which the socket listens.
  [[nodiscard]] int own_port() const;
  /// Returns the numeric address of this end of the connection.
  [[nodiscard]] std::string own_address() const;

  /// Returns whether all bytes were sent.
  [[nodiscard]] bool send_all(void const* bytes, std::size_t count) const;
  /// Returns whether `count` bytes have come.
  [[nodiscard]] bool receive_all(void* to, std::size_t count) const;
  /// Lets small messages go at once.
  void send_at_once() const;

 private:
  int descriptor_ = -1;
};

/// Returns a socket that listens on all addresses of the machine. Port 0 stands for any that is
/// free. Throws std::runtime_error, naming the port.
[[nodiscard]] Socket listening_at(int port);
/// Returns a socket that is connected to one of the host's addresses; none, and a reason, if it
/// cannot be.
[[nodiscard]] Socket connected_to(std::string const& host, int port, std::string& why);
/// Returns 32 random hexadecimal digits, by which the processes of a program know each other.
[[nodiscard]] std::string random_token();
/// Returns the text of an error number.
[[nodiscard]] std::string text_of_error(int error);

}  // namespace msstream::comm::detail
