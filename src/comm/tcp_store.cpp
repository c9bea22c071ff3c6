// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp_store.hpp"

#include "comm/timeout.hpp"

#include <msstream/base/detail/start_thread.hpp>

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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
constexpr std::uint32_t kMostBytes = 1 << 20;

enum What : char { hello = 'h', set = 's', set_first = 'f', get = 'g', farewell = 'b' };

void append(std::string& to, std::uint32_t number) {
  auto const wire = htonl(number);
  to.append(reinterpret_cast<char const*>(&wire), sizeof(wire));
}
[[nodiscard]] std::uint32_t number_at(char const* from) {
  std::uint32_t wire = 0;
  std::memcpy(&wire, from, sizeof(wire));
  return ntohl(wire);
}

/// Returns whether all bytes are sent.
[[nodiscard]] bool send_all(int socket, std::string const& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    auto const count = ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return false;
    }
    sent += static_cast<std::size_t>(count);
  }
  return true;
}
/// Returns whether `count` bytes have come.
[[nodiscard]] bool receive_all(int socket, char* to, std::size_t count) {
  for (std::size_t got = 0; got < count;) {
    auto const part = ::recv(socket, to + got, count - got, 0);
    if (part < 0 && errno == EINTR) {
      continue;
    }
    if (part <= 0) {
      return false;
    }
    got += static_cast<std::size_t>(part);
  }
  return true;
}

void send_at_once(int socket) {
  int const on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

[[nodiscard]] std::string text_of(int error) {
  return std::strerror(error);  // NOLINT(concurrency-mt-unsafe): glibc's is safe
}

}  // namespace

/// The server's side: the clients, and the store itself. Used by the server's thread alone.
class TcpStoreServer::Connections {
 public:
  ~Connections() {
    for (auto const& client : clients_) {
      ::close(client.socket);
    }
  }

  void serve(int listener, int stop) {
    std::vector<pollfd> polled;
    for (;;) {
      polled.assign({{listener, POLLIN, 0}, {stop, POLLIN, 0}});
      for (auto const& client : clients_) {
        polled.push_back({client.socket, POLLIN, 0});
      }
      if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) {
        return;
      }
      if (polled[1].revents != 0) {
        return;
      }
      for (std::size_t i = clients_.size(); i-- > 0;) {
        if (polled[i + 2].revents != 0 && !read(clients_[i])) {
          end(i);
        }
      }
      if ((polled[0].revents & POLLIN) != 0) {
        if (int const socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC); socket >= 0) {
          send_at_once(socket);
          clients_.push_back({socket, {}, {}});
        }
      }
    }
  }

 private:
  struct Client {
    int socket;
    std::string rank;   ///< empty before its hello and after its farewell
    std::string bytes;  ///< of a request that has not come as a whole
  };

  void end(std::size_t i) {
    if (!clients_[i].rank.empty()) {
      values_.try_emplace(kGone, clients_[i].rank);
    }
    ::close(clients_[i].socket);
    clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  /// Reads what has come from a client, and answers. Returns false if the connection has ended.
  [[nodiscard]] bool read(Client& client) {
    std::array<char, 4096> buffer;
    auto const count = ::recv(client.socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
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
    switch (what) {
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
      case What::get:
        break;
      default:
        return false;
    }
    auto const found = values_.find(key);
    bool const has = found != values_.end();
    std::string bytes(1, has ? '\1' : '\0');
    append(bytes, has ? static_cast<std::uint32_t>(found->second.size()) : 0);
    return send_all(client.socket, has ? bytes + found->second : bytes);
  }

  std::vector<Client> clients_;
  std::map<std::string, std::string> values_;
};

TcpStoreServer::TcpStoreServer(int port) {
  listener_ = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool const is_v6 = listener_ >= 0;
  if (!is_v6) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  }
  int const on = 1;
  int const off = 0;
  ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(static_cast<std::uint16_t>(port));
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = v6.sin6_port;
  if (is_v6) {
    ::setsockopt(listener_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  auto* const address = is_v6 ? reinterpret_cast<sockaddr*>(&v6) : reinterpret_cast<sockaddr*>(&v4);
  socklen_t length = is_v6 ? sizeof(v6) : sizeof(v4);
  if (::bind(listener_, address, length) != 0 || ::listen(listener_, SOMAXCONN) != 0 ||
      ::getsockname(listener_, address, &length) != 0 || ::pipe(stop_) != 0) {
    auto const why = text_of(errno);
    ::close(listener_);
    throw std::runtime_error(fmt::format(
        "the store of rank 0 cannot listen on port {}: {}; MSSTREAM_COMM_PORT chooses another one",
        port,
        why));
  }
  port_ = ntohs(is_v6 ? v6.sin6_port : v4.sin_port);
  try {
    thread_ = msstream::detail::start_thread("the store of rank 0",
                                             [this] { Connections().serve(listener_, stop_[0]); });
  } catch (...) {
    for (int const open : {listener_, stop_[0], stop_[1]}) {
      ::close(open);
    }
    throw;
  }
}

TcpStoreServer::~TcpStoreServer() {
  ::close(stop_[1]);
  thread_.join();
  ::close(stop_[0]);
  ::close(listener_);
}

namespace {

/// Returns a socket that is connected to one of the host's addresses; -1, and a reason, if none is.
[[nodiscard]] int connected(std::string const& host, int port, std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (int const error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
      error != 0) {
    why = ::gai_strerror(error);
    return -1;
  }
  int socket = -1;
  for (auto const* address = found; address != nullptr && socket < 0; address = address->ai_next) {
    socket = ::socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, 0);
    if (socket >= 0 && ::connect(socket, address->ai_addr, address->ai_addrlen) != 0) {
      why = text_of(errno);
      ::close(socket);
      socket = -1;
    }
  }
  ::freeaddrinfo(found);
  return socket;
}

}  // namespace

TcpStore::TcpStore(std::string host, int port, int rank, std::chrono::nanoseconds timeout)
    : address_(fmt::format("{}:{}", host, port)) {
  auto const deadline = deadline_after(timeout);
  std::string why;
  while ((socket_ = connected(host, port, why)) < 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error(
          fmt::format("no connection to the store of rank 0 at {} within {}: {}",
                      address_,
                      timeout_text(timeout),
                      why));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  send_at_once(socket_);
  // A server that does not answer is lost like one that has ended.
  auto const seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout).count();
  timeval const limit{std::clamp<std::int64_t>(seconds, 1, 3600), 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  try {
    static_cast<void>(ask(What::hello, std::to_string(rank), {}));
  } catch (...) {
    ::close(socket_);
    throw;
  }
}

TcpStore::~TcpStore() {
  try {
    static_cast<void>(ask(What::farewell, {}, {}));
  } catch (...) {  // NOLINT(bugprone-empty-catch): the server has ended
  }
  ::close(socket_);
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
  std::string request;
  append(request, kMagic);
  request.push_back(what);
  append(request, static_cast<std::uint32_t>(key.size()));
  append(request, static_cast<std::uint32_t>(value.size()));
  request += key + value;
  std::array<char, kAnswerHead> head;
  std::lock_guard const guard(mutex_);
  if (!send_all(socket_, request) || !receive_all(socket_, head.data(), head.size())) {
    throw_ended();
  }
  auto const bytes = number_at(head.data() + 1);
  std::string answer(std::min(bytes, kMostBytes), '\0');
  if (bytes > kMostBytes || !receive_all(socket_, answer.data(), answer.size())) {
    throw_ended();
  }
  return head[0] != 0 ? std::optional(std::move(answer)) : std::nullopt;
}

void TcpStore::throw_ended() const {
  throw std::runtime_error(
      fmt::format("the connection to the store of rank 0 at {} has ended", address_));
}

}  // namespace msstream::comm::detail
