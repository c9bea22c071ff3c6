// SPDX-License-Identifier: Apache-2.0
#include "comm/process_store.hpp"

#include "comm/world_access.hpp"

#include <msstream/base/detail/env.hpp>
#include <msstream/base/detail/require.hpp>

#include <charconv>
#include <system_error>

namespace msstream::comm::detail {
namespace {

constexpr int kMostPort = 65535;

}  // namespace

std::pair<std::string, int> address_of_store(World const& world) {
  std::string const host(env::value_of("MASTER_ADDR"));
  auto const port_text = env::value_of("MASTER_PORT");
  auto const own = env::integer("MSSTREAM_COMM_PORT", 0, 0, kMostPort);
  require(
      !host.empty() && (own != 0 || !port_text.empty()),
      "{}: MASTER_ADDR is '{}' and MASTER_PORT is '{}'; expected the host of rank 0, and a port "
      "after which the next one is free there, or MSSTREAM_COMM_PORT",
      to_string(world),
      host,
      port_text);
  if (own != 0) {
    return {host, static_cast<int>(own)};
  }
  int port = 0;
  auto const [end, error] =
      std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  require(error == std::errc() && end == port_text.data() + port_text.size() && port > 0 &&
              port <= kMostPort,
          "MASTER_PORT: expected a number from 1 to {}, found '{}'",
          kMostPort,
          port_text);
  // Launchers have a server of their own at MASTER_PORT.
  return {host, port < kMostPort ? port + 1 : port - 1};
}

ProcessStore::ProcessStore(std::pair<std::string, int> const& address,
                           int rank,
                           std::chrono::nanoseconds timeout,
                           std::chrono::milliseconds linger)
    : server_(rank == 0 ? std::make_unique<TcpStoreServer>(address.second, linger) : nullptr),
      port_(rank == 0 ? server_->port() : address.second) {
  store_.emplace(StoreAddress{{address.first}, port_}, rank, timeout);
}

ProcessStore::ProcessStore(std::unique_ptr<TcpStoreServer> server,
                           StoreAddress const& address,
                           int rank,
                           std::chrono::nanoseconds timeout)
    : server_(std::move(server)), port_(address.port) {
  store_.emplace(address, rank, timeout);
}

int ProcessStore::next_generation(std::string const& name) {
  std::lock_guard const guard(mutex_);
  return generations_[name]++;
}

std::shared_ptr<ProcessStore> ProcessStore::of_this_process(World const& world,
                                                            std::chrono::nanoseconds timeout) {
  if (auto const& found = WorldAccess::processes(world)) {
    return found;
  }
  static std::mutex mutex;
  static std::shared_ptr<ProcessStore> made;
  std::lock_guard const guard(mutex);
  if (made == nullptr) {
    constexpr auto kLinger = std::chrono::seconds(1);
    made = std::make_shared<ProcessStore>(address_of_store(world), world.rank(), timeout, kLinger);
  }
  return made;
}

}  // namespace msstream::comm::detail
