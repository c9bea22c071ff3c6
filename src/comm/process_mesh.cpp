// SPDX-License-Identifier: Apache-2.0
#include "comm/process_mesh.hpp"

#include "comm/timeout.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <thread>
#include <utility>

namespace msstream::comm::detail {
namespace {

/// How long a wait for the network lasts until the ranks' failures are looked for.
constexpr int kLookEveryMs = 20;

/// The first bytes of a connection: they show that the process at its other end is of this
/// communicator.
struct Hello {
  std::array<char, 32> token;
  std::int32_t rank;
};

/// A rank's entry among those that all ranks gather.
struct Entry {
  std::string host;
  int port = 0;
  std::string token;  ///< that of rank 0 counts
};
[[nodiscard]] Entry parsed(std::string const& text) {
  Entry entry;
  std::istringstream(text) >> entry.host >> entry.port >> entry.token;
  return entry;
}

[[nodiscard]] bool is_loopback(std::string const& address) {
  return address.starts_with("127.") || address == "::1";
}

/// Returns whether a call on a socket that does not block has to be made again later.
[[nodiscard]] bool is_to_be_repeated() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

ProcessMesh::ProcessMesh(PeersOfProcesses& peers,
                         MeshAddress const& address,
                         std::chrono::nanoseconds timeout)
    : peers_(peers), sockets_(static_cast<std::size_t>(peers.size())) {
  auto const deadline = deadline_after(timeout);
  auto const listener = listening_at(0);
  std::vector<Entry> entries;
  for (auto const& text :
       peers.exchange(fmt::format("{} {} {}", address.own, listener.own_port(), random_token()))) {
    entries.push_back(parsed(text));
  }
  auto const& token = entries.front().token;
  Hello hello{{}, peers.rank()};
  std::copy_n(token.begin(), std::min(token.size(), hello.token.size()), hello.token.begin());
  // All ranks listen by now, so that a connection need not wait until the other rank accepts it.
  for (int other = 0; other < peers.rank(); ++other) {
    auto const& entry = entries[static_cast<std::size_t>(other)];
    bool const is_elsewhere = is_loopback(entry.host) && !is_loopback(address.own);
    auto socket =
        connected(other, is_elsewhere ? address.host_of_store : entry.host, entry.port, deadline);
    if (!socket.send_all(&hello, sizeof(hello))) {
      peers.lose(other, "its process has ended");
      peers.rethrow_failure(nullptr);
    }
    sockets_[static_cast<std::size_t>(other)] = std::move(socket);
  }
  for (int missing = peers.size() - 1 - peers.rank(); missing > 0;) {
    int rank = -1;
    auto socket = accepted(listener, token, deadline, rank);
    auto& place = sockets_[static_cast<std::size_t>(rank)];
    missing -= place.is_open() ? 0 : 1;
    place = std::move(socket);
  }
  for (auto const& socket : sockets_) {
    if (socket.is_open()) {
      socket.send_at_once();
      ::fcntl(socket.descriptor(), F_SETFL, O_NONBLOCK);
    }
  }
}

Socket ProcessMesh::connected(int rank,
                              std::string const& host,
                              int port,
                              Clock::time_point deadline) {
  std::string why;
  for (;;) {
    if (auto socket = connected_to(host, port, why); socket.is_open()) {
      return socket;
    }
    peers_.look(false);
    if (Clock::now() > deadline) {
      peers_.lose(
          rank,
          fmt::format("rank {} cannot reach it at {}:{}: {}", peers_.rank(), host, port, why));
    }
    peers_.rethrow_failure(nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(kLookEveryMs));
  }
}

Socket ProcessMesh::accepted(Socket const& listener,
                             std::string const& token,
                             Clock::time_point deadline,
                             int& rank) {
  for (;;) {
    pollfd polled{listener.descriptor(), POLLIN, 0};
    if (::poll(&polled, 1, kLookEveryMs) > 0) {
      Socket socket(::accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
      timeval const limit{1, 0};  // for a stranger that says nothing
      ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
      Hello hello{};
      bool const is_ours = socket.is_open() && socket.receive_all(&hello, sizeof(hello)) &&
                           token == std::string(hello.token.data(), hello.token.size()) &&
                           hello.rank > peers_.rank() && hello.rank < peers_.size();
      if (is_ours) {
        rank = hello.rank;
        return socket;
      }
    }
    peers_.look(false);
    if (Clock::now() > deadline) {
      for (int other = peers_.size(); --other > peers_.rank();) {
        if (!sockets_[static_cast<std::size_t>(other)].is_open()) {
          peers_.lose(other, fmt::format("it did not connect to rank {}", peers_.rank()));
        }
      }
    }
    peers_.rethrow_failure(nullptr);
  }
}

std::chrono::nanoseconds ProcessMesh::waiting_for() const noexcept {
  auto const at = progress_at_.load();
  return at == 0 ? std::chrono::nanoseconds(0)
                 : Clock::now() - Clock::time_point(Clock::duration(at));
}

bool ProcessMesh::exchange(std::vector<Transfer> transfers) {
  auto const note_progress = [this] { progress_at_ = Clock::now().time_since_epoch().count(); };
  struct End {
    std::atomic<Clock::rep>& progress_at;
    ~End() { progress_at = 0; }
  } const end{progress_at_};
  note_progress();
  std::vector<pollfd> polled;
  for (;;) {
    std::erase_if(transfers, [](Transfer const& transfer) {
      return transfer.to_send.empty() && transfer.to_receive.empty();
    });
    if (transfers.empty()) {
      return true;
    }
    if (peers_.has_failed()) {
      return false;
    }
    polled.clear();
    for (auto const& transfer : transfers) {
      auto const events =
          (transfer.to_send.empty() ? 0 : POLLOUT) | (transfer.to_receive.empty() ? 0 : POLLIN);
      auto const& socket = sockets_[static_cast<std::size_t>(transfer.rank)];
      polled.push_back({socket.descriptor(), static_cast<short>(events), 0});
    }
    if (::poll(polled.data(), polled.size(), kLookEveryMs) <= 0) {
      continue;
    }
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      auto& [rank, to_send, to_receive] = transfers[i];
      int const socket = polled[i].fd;
      bool const has_ended = (polled[i].revents & (POLLERR | POLLHUP)) != 0;
      if (!to_receive.empty() && ((polled[i].revents & POLLIN) != 0 || has_ended)) {
        auto const count = ::recv(socket, to_receive.data(), to_receive.size(), 0);
        if (count == 0 || (count < 0 && !is_to_be_repeated())) {
          throw Closed{rank};
        }
        to_receive = to_receive.subspan(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        note_progress();
      }
      if (!to_send.empty() && ((polled[i].revents & POLLOUT) != 0 || has_ended)) {
        auto const count = ::send(socket, to_send.data(), to_send.size(), MSG_NOSIGNAL);
        if (count < 0 && !is_to_be_repeated()) {
          throw Closed{rank};
        }
        to_send = to_send.subspan(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        note_progress();
      }
    }
  }
}

}  // namespace msstream::comm::detail
