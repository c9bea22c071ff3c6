// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

namespace msstream::dashboard {

class Board;

/// Returns the commands by which this build gets servers, if it has none, and builds the program
/// again: in Debian, and in the folder in which the program was built.
[[nodiscard]] std::string commands_for_servers(std::string const& program);

/// Bounds of what clients can take.
struct ServerLimits {
  int connections = 32;                  ///< at once; others wait until one ends
  std::chrono::milliseconds time{5000};  ///< of a connection, from its begin
};

/// Serves a board on 127.0.0.1, on threads of its own, until destroyed. Ends each connection after
/// one answer. A request may have 16 KiB.
class Server {
 public:
  /// Returns whether the build has the library libmicrohttpd, without which there are no servers.
  [[nodiscard]] static bool is_available() noexcept;

  /// Listens on the port, or with 0 on a free one. Throws std::runtime_error, which names the port,
  /// if it cannot, as when another program listens there; and if the build has no servers.
  Server(std::shared_ptr<Board> board, int port, ServerLimits const& limits = {});
  Server(Server const&) = delete;
  Server& operator=(Server const&) = delete;
  ~Server();

  [[nodiscard]] int port() const noexcept;
  /// Returns the address for a browser, such as `http://127.0.0.1:8080/`.
  [[nodiscard]] std::string url() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace msstream::dashboard
