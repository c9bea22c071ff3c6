// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msstream::dashboard {

/// A socket that listens on a port of 127.0.0.1.
class Listener {
 public:
  /// Listens on the port, or with 0 on a free one. Throws std::runtime_error, which names the port.
  explicit Listener(int port);
  Listener(Listener const&) = delete;
  Listener& operator=(Listener const&) = delete;
  ~Listener();

  [[nodiscard]] int socket() const noexcept { return socket_; }
  [[nodiscard]] int port() const noexcept { return port_; }
  /// Leaves the socket open, for its new owner to close.
  void release() noexcept { owns_ = false; }

 private:
  void bind_and_listen(int port);

  int socket_;
  int port_ = 0;
  bool owns_ = true;
};

}  // namespace msstream::dashboard
