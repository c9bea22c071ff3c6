// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp_store.hpp"

#include "comm/timeout.hpp"

#include <msstream/base/detail/start_thread.hpp>

#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

namespace msstream::comm::detail {
namespace {

/// A request is the kMagic, one letter of What, and the lengths of key and value, then both. An
/// answer is 1 or 0 for a value or none, the length of the value, then the value. Numbers have 4
/// bytes in network order.
constexpr std::uint32_t kMagic = 0x6d535331;
constexpr std::size_t kRequestHead = 4 + 1 + 4 + 4;
constexpr std::size_t kAnswerHead = 1 + 4;
/// The most bytes of a key or a value: a peer that sends more is none of ours.
constexpr std::uint32_t kMostBytes = 1 << 26;

enum What : char {
  knock = 'k',
  hello = 'h',
  set = 's',
  set_first = 'f',
  get = 'g',
  farewell = 'b'
};

void append(std::string& to, std::uint32_t number) {
  auto const wire = htonl(number);
  to.append(reinterpret_cast<char const*>(&wire), sizeof(wire));
}
[[nodiscard]] std::uint32_t number_at(char const* from) {
  std::uint32_t wire = 0;
  std::memcpy(&wire, from, sizeof(wire));
  return ntohl(wire);
}

}  // namespace

/// The server's side: the clients, and the store itself. Used by the server's thread alone.
class TcpStoreServer::Connections {
 public:
  explicit Connections(std::string token) : token_(std::move(token)) {}

  /// Serves until `stop` has a byte, and then the clients that are left, for `linger` at most.
  void serve(int listener, int stop, std::chrono::milliseconds linger) {
    std::vector<pollfd> polled;
    std::optional<std::chrono::steady_clock::time_point> ends_at;
    for (;;) {
      auto left = std::chrono::milliseconds(-1);  // no limit
      if (ends_at) {
        left = std::chrono::ceil<std::chrono::milliseconds>(*ends_at -
                                                            std::chrono::steady_clock::now());
        if (clients_.empty() || left.count() <= 0) {
          return;
        }
      }
      polled.assign({{listener, POLLIN, 0}, {ends_at ? -1 : stop, POLLIN, 0}});
      for (auto const& client : clients_) {
        polled.push_back({client.socket.descriptor(), POLLIN, 0});
      }
      if (::poll(polled.data(), polled.size(), static_cast<int>(left.count())) < 0 &&
          errno != EINTR) {
        return;
      }
      if (polled[1].revents != 0) {
        ends_at = std::chrono::steady_clock::now() + linger;
      }
      for (std::size_t i = clients_.size(); i-- > 0;) {
        if (polled[i + 2].revents != 0 && !read(clients_[i])) {
          end(i);
        }
      }
      if ((polled[0].revents & POLLIN) != 0) {
        Socket socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
        if (socket.is_open()) {
          socket.send_at_once();
          clients_.push_back({std::move(socket), {}, {}});
        }
      }
    }
  }

 private:
  struct Client {
    Socket socket;
    std::string rank;       ///< empty before its hello and after its farewell
    std::string bytes;      ///< of a request that has not come as a whole
    bool is_known = false;  ///< whether it has shown the token
  };

  void end(std::size_t i) {
    if (!clients_[i].rank.empty()) {
      auto& gone = values_[kGone];
      gone += (gone.empty() ? "" : " ") + clients_[i].rank;
    }
    clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  /// Reads what has come from a client, and answers. Returns false if the connection has ended.
  [[nodiscard]] bool read(Client& client) {
    std::array<char, 4096> buffer;
    auto const count =
        ::recv(client.socket.descriptor(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
      return true;
    }
    if (count <= 0) {
      return false;
    }
    client.bytes.append(buffer.data(), static_cast<std::size_t>(count));
    while (client.bytes.size() >= kRequestHead) {
      auto const* const head = client.bytes.data();
      auto const key_bytes = number_at(head + 5);
      auto const value_bytes = number_at(head + 9);
      if (number_at(head) != kMagic || key_bytes > kMostBytes || value_bytes > kMostBytes) {
        return false;
      }
      auto const whole = kRequestHead + key_bytes + value_bytes;
      if (client.bytes.size() < whole) {
        return true;
      }
      auto const what = head[4];
      auto const key = client.bytes.substr(kRequestHead, key_bytes);
      auto value = client.bytes.substr(kRequestHead + key_bytes, value_bytes);
      client.bytes.erase(0, whole);
      if (!answer(client, what, key, std::move(value))) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool answer(Client& client, char what, std::string const& key, std::string value) {
    if (what == What::knock) {
      client.is_known = key == token_;
    }
    if (!client.is_known && !token_.empty()) {
      return false;
    }
    switch (what) {
      case What::knock:
      case What::get:
        break;
      case What::hello:
        client.rank = key;
        break;
      case What::farewell:
        client.rank.clear();
        break;
      case What::set:
        values_[key] = std::move(value);
        break;
      case What::set_first:
        values_.try_emplace(key, std::move(value));
        break;
      default:
        return false;
    }
    auto const found = values_.find(key);
    bool const has = found != values_.end();
    std::string bytes(1, has ? '\1' : '\0');
    append(bytes, has ? static_cast<std::uint32_t>(found->second.size()) : 0);
    if (has) {
      bytes += found->second;
    }
    return client.socket.send_all(bytes.data(), bytes.size());
  }

  std::string const token_;
  std::vector<Client> clients_;
  std::map<std::string, std::string> values_;
};

TcpStoreServer::TcpStoreServer(int port, std::chrono::milliseconds linger, std::string token) {
  try {
    listener_ = listening_at(port);
    port_ = listener_.own_port();
  } catch (std::runtime_error const& error) {
    throw std::runtime_error(fmt::format(
        "the store of rank 0 {}; MSSTREAM_COMM_PORT chooses another one", error.what()));
  }
  if (::pipe2(stop_, O_CLOEXEC) != 0) {
    throw std::runtime_error("the store of rank 0 cannot make a pipe: " + text_of_error(errno));
  }
  try {
    thread_ = msstream::detail::start_thread("the store of rank 0", [this, linger, token] {
      Connections(token).serve(listener_.descriptor(), stop_[0], linger);
    });
  } catch (...) {
    ::close(stop_[0]);
    ::close(stop_[1]);
    throw;
  }
}

TcpStoreServer::~TcpStoreServer() {
  // A byte, because a child process may have the other end still open.
  while (::write(stop_[1], "", 1) < 0 && errno == EINTR) {
  }
  ::close(stop_[1]);
  thread_.join();
  ::close(stop_[0]);
}

TcpStore::TcpStore(StoreAddress const& address, int rank, std::chrono::nanoseconds timeout) {
  auto const deadline = deadline_after(timeout);
  for (bool is_reached = false; !is_reached;) {
    std::string reasons;
    for (auto const& host : address.hosts) {
      std::string why;
      if ((is_reached = reach(host, address, why))) {
        break;
      }
      reasons += fmt::format("{}{}:{}: {}", reasons.empty() ? "" : "; ", host, address.port, why);
    }
    if (!is_reached && std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error(fmt::format(
          "no connection to the store of rank 0 within {}: {}", timeout_text(timeout), reasons));
    }
    if (!is_reached) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  // A server that does not answer is lost like one that has ended.
  set_limit(std::chrono::duration_cast<std::chrono::seconds>(timeout));
  static_cast<void>(ask(What::hello, std::to_string(rank), {}));
}

bool TcpStore::reach(std::string const& host, StoreAddress const& address, std::string& why) {
  socket_ = connected_to(host, address.port, why);
  if (!socket_.is_open()) {
    return false;
  }
  host_ = host;
  address_ = fmt::format("{}:{}", host, address.port);
  socket_.send_at_once();
  if (address.token.empty()) {
    return true;
  }
  set_limit(std::chrono::seconds(5));  // it may be another program that listens there
  try {
    static_cast<void>(ask(What::knock, address.token, {}));
    return true;
  } catch (std::runtime_error const&) {
    why = "what listens there is not the store of this program";
    return false;
  }
}

void TcpStore::set_limit(std::chrono::seconds limit) const {
  timeval const time{std::clamp<std::int64_t>(limit.count(), 1, 3600), 0};
  ::setsockopt(socket_.descriptor(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
  ::setsockopt(socket_.descriptor(), SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
}

TcpStore::~TcpStore() {
  try {
    static_cast<void>(ask(What::farewell, {}, {}));
  } catch (...) {  // NOLINT(bugprone-empty-catch): the server has ended
  }
}

void TcpStore::set(std::string const& key, std::string const& value) {
  static_cast<void>(ask(What::set, key, value));
}
std::string TcpStore::set_first(std::string const& key, std::string const& value) {
  return ask(What::set_first, key, value).value_or(value);
}
std::optional<std::string> TcpStore::get(std::string const& key) {
  return ask(What::get, key, {});
}

std::optional<std::string> TcpStore::ask(char what,
                                         std::string const& key,
                                         std::string const& value) {
  if (key.size() > kMostBytes || value.size() > kMostBytes) {
    throw std::length_error(  // which is no loss of rank 0
        fmt::format("the value of '{}' has {} bytes; the store of rank 0 takes at most {}",
                    key,
                    value.size(),
                    kMostBytes));
  }
  std::string request;
  append(request, kMagic);
  request.push_back(what);
  append(request, static_cast<std::uint32_t>(key.size()));
  append(request, static_cast<std::uint32_t>(value.size()));
  request += key + value;
  std::array<char, kAnswerHead> head;
  std::lock_guard const guard(mutex_);
  if (!socket_.send_all(request.data(), request.size()) ||
      !socket_.receive_all(head.data(), head.size())) {
    throw_ended();
  }
  auto const bytes = number_at(head.data() + 1);
  std::string answer(std::min(bytes, kMostBytes), '\0');
  if (bytes > kMostBytes || !socket_.receive_all(answer.data(), answer.size())) {
    throw_ended();
  }
  return head[0] != 0 ? std::optional(std::move(answer)) : std::nullopt;
}

void TcpStore::throw_ended() {
  socket_ = Socket();  // an answer that came late would be taken for that to another question
  throw std::runtime_error(
      fmt::format("the connection to the store of rank 0 at {} has ended", address_));
}

}  // namespace msstream::comm::detail
