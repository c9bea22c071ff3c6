// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/sockets.hpp"

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace msstream::comm::detail {

/// The texts that processes share by their keys, served over TCP by the process of rank 0.
///
/// If a client's connection ends without a farewell, its process is gone: the server then stores
/// the client's rank under kGone, unless another one is there.
class TcpStoreServer {
 public:
  /// Listens on all addresses of the machine. Port 0 stands for any that is free. Throws
  /// std::runtime_error, naming the port, if it is in use. The destructor serves the clients that
  /// are still connected, for `linger` at most, because they may ask why a rank has ended.
  explicit TcpStoreServer(int port, std::chrono::milliseconds linger = {});
  ~TcpStoreServer();
  TcpStoreServer(TcpStoreServer const&) = delete;
  TcpStoreServer& operator=(TcpStoreServer const&) = delete;

  [[nodiscard]] int port() const noexcept { return port_; }

  static constexpr char const* kGone = "gone";

 private:
  class Connections;

  Socket listener_;
  int stop_[2] = {-1, -1};  ///< a pipe, whose end tells the thread to stop
  int port_ = 0;
  std::thread thread_;
};

/// A process's connection to the store. Thread-safe. Every function throws std::runtime_error,
/// naming host and port, if the connection has ended.
class TcpStore {
 public:
  /// Connects, and tries again until the timeout, because the server may start later. Throws
  /// std::runtime_error, naming host, port and the reason, if it cannot.
  TcpStore(std::string host, int port, int rank, std::chrono::nanoseconds timeout);
  /// Says farewell.
  ~TcpStore();
  TcpStore(TcpStore const&) = delete;
  TcpStore& operator=(TcpStore const&) = delete;

  void set(std::string const& key, std::string const& value);
  /// Stores a value unless the key has one. Returns the value that the key has then.
  std::string set_first(std::string const& key, std::string const& value);
  [[nodiscard]] std::optional<std::string> get(std::string const& key);
  /// Returns the address of this process from which it reaches the store.
  [[nodiscard]] std::string own_address() const { return socket_.own_address(); }

 private:
  [[nodiscard]] std::optional<std::string> ask(char what,
                                               std::string const& key,
                                               std::string const& value);
  [[noreturn]] void throw_ended();

  std::string address_;  ///< host:port
  std::mutex mutex_;
  Socket socket_;
};

}  // namespace msstream::comm::detail
