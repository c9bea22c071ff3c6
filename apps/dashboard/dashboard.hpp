// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dashboard/board.hpp"
#include "dashboard/server.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

namespace msstream::dashboard {

/// A board that a server shows.
class Dashboard {
 public:
  /// Throws std::runtime_error, as Server does.
  Dashboard(Description description, int port)
      : board_(std::make_shared<Board>(std::move(description))), server_(board_, port) {}

  [[nodiscard]] std::shared_ptr<Board> const& board() const noexcept { return board_; }
  [[nodiscard]] std::string url() const { return server_.url(); }

  /// Shows how the training has ended. While a client watches, waits until one has got it, at most
  /// for `most`. Returns whether one has.
  bool end(End end, std::chrono::milliseconds most = std::chrono::seconds(3)) {
    board_->note_end(std::move(end));
    return board_->wait_until_end_is_seen(most);
  }

 private:
  std::shared_ptr<Board> board_;
  Server server_;
};

}  // namespace msstream::dashboard
