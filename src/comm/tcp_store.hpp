// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/sockets/sockets.hpp"

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace msstream::comm::detail {

/// The address at which processes find the store of a program.
struct StoreAddress {
  /// The addresses or names of the host of rank 0. A process takes the first that leads to the
  /// store.
  std::vector<std::string> hosts;
  int port = 0;
  /// Random text that the store expects of each process, to tell it from strangers; may be empty.
  std::string token = {};
};

/// The texts that processes share by their keys, served over TCP by the process of rank 0.
///
/// If a client's connection ends without a farewell, its process is gone: the server then adds the
/// client's rank to those under kGone, which a space divides.
class TcpStoreServer {
 public:
  /// Listens on all addresses of the machine. Port 0 stands for any that is free. Throws
  /// std::runtime_error, naming the port, if it is in use. Connections that do not begin with the
  /// token are closed. The destructor serves the clients that are still connected, for `linger` at
  /// most, because they may ask why a rank has ended.
  explicit TcpStoreServer(int port, std::chrono::milliseconds linger = {}, std::string token = {});
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
/// naming host and port, if the connection has ended, and std::length_error for more than 64 MiB.
class TcpStore {
 public:
  /// Connects, and tries again until the timeout, because the server may start later. Throws
  /// std::runtime_error, naming host, port and the reason, if it cannot.
  TcpStore(StoreAddress const& address, int rank, std::chrono::nanoseconds timeout);
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
  /// Returns the host at which this process reaches the store: one of those of the StoreAddress.
  [[nodiscard]] std::string const& host() const noexcept { return host_; }

 private:
  [[nodiscard]] std::optional<std::string> ask(char what,
                                               std::string const& key,
                                               std::string const& value);
  [[noreturn]] void throw_ended();
  /// Returns whether there is a store at the host that knows the token. Otherwise `why` tells why
  /// not.
  [[nodiscard]] bool reach(std::string const& host, StoreAddress const& address, std::string& why);
  /// Sets how long the connection waits for an answer.
  void set_limit(std::chrono::seconds limit) const;

  std::string host_;
  std::string address_;  ///< host:port
  std::mutex mutex_;
  Socket socket_;
};

}  // namespace msstream::comm::detail
