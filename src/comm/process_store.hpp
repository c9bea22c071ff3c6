// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/tcp_store.hpp"

#include <msstream/comm/world.hpp>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace msstream::comm::detail {

/// Returns the host and port of the store of a program whose ranks are processes. Throws
/// std::invalid_argument, naming the variables, unless they say both.
[[nodiscard]] std::pair<std::string, int> address_of_store(World const& world);

/// The store as one process has it: rank 0 serves it. Thread-safe.
class ProcessStore {
 public:
  /// Throws std::runtime_error, naming host and port, if there is no connection within the timeout.
  /// Rank 0 serves the others for `linger` at most after its end.
  ProcessStore(std::pair<std::string, int> const& address,
               int rank,
               std::chrono::nanoseconds timeout,
               std::chrono::milliseconds linger = {});

  /// Connects to a store that rank 0 passes, and other ranks do not. Throws std::runtime_error, as
  /// TcpStore does.
  ProcessStore(std::unique_ptr<TcpStoreServer> server,
               StoreAddress const& address,
               int rank,
               std::chrono::nanoseconds timeout);

  [[nodiscard]] TcpStore& store() noexcept { return *store_; }
  /// Returns the host of rank 0, as this process reaches it.
  [[nodiscard]] std::string const& host() const noexcept { return store_->host(); }
  /// Returns the port of the store.
  [[nodiscard]] int port() const noexcept { return port_; }
  /// Returns how many communicators of this name the process has made before.
  [[nodiscard]] int next_generation(std::string const& name);

  /// Returns that of the world, if the ranks have found each other before, otherwise the one at
  /// the address of the environment: made by the first call, and kept until exit.
  [[nodiscard]] static std::shared_ptr<ProcessStore> of_this_process(
      World const& world, std::chrono::nanoseconds timeout);

 private:
  std::unique_ptr<TcpStoreServer> server_;  ///< of rank 0
  int port_;
  std::optional<TcpStore> store_;
  std::mutex mutex_;
  std::map<std::string, int> generations_;
};

}  // namespace msstream::comm::detail
