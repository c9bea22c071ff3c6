// SPDX-License-Identifier: Apache-2.0
// The server, by GNU libmicrohttpd.
#if MSSTREAM_HAS_MICROHTTPD
#include "dashboard/board.hpp"
#include "dashboard/listener.hpp"
#include "dashboard/requests.hpp"
#include "dashboard/server.hpp"

#include <fmt/core.h>
#include <microhttpd.h>
#include <strings.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::dashboard {

namespace {

/// While it lives, threads that the calling thread starts get no signals, which are for the
/// program's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    ::sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(SignalsBlocked const&) = delete;
  SignalsBlocked& operator=(SignalsBlocked const&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  ::sigset_t before_{};
};

/// Adds a header to the request. MHD, a library in C, calls it: no exception may leave it.
MHD_Result add_header(void* request, MHD_ValueKind /*kind*/, char const* name, char const* value) {
  try {
    auto& to = *static_cast<Request*>(request);
    if (name != nullptr && ::strcasecmp(name, "host") == 0) {
      to.hosts.emplace_back(value != nullptr ? value : "");
    } else if (name != nullptr && ::strcasecmp(name, "sec-fetch-site") == 0) {
      to.fetch_sites.emplace_back(value != nullptr ? value : "");
    }
    return MHD_YES;
  } catch (...) {  // memory is short: ends the loop over the headers
    return MHD_NO;
  }
}

MHD_Result send(MHD_Connection* connection, Answer const& answer) {
  auto* const response = ::MHD_create_response_from_buffer(
      answer.text.size(), const_cast<char*>(answer.text.data()), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) {
    return MHD_NO;  // closes the connection
  }
  ::MHD_add_response_header(response, "Content-Type", answer.content_type);
  for (auto const& header : headers_of_answers()) {
    ::MHD_add_response_header(response, header.name, header.value);
  }
  if (answer.status == 405) {
    ::MHD_add_response_header(response, "Allow", "GET");
  }
  auto const queued =
      ::MHD_queue_response(connection, static_cast<unsigned>(answer.status), response);
  ::MHD_destroy_response(response);
  return queued;
}

MHD_Result answer_request(void* board,
                          MHD_Connection* connection,
                          char const* path,
                          char const* method,
                          char const* /*version*/,
                          char const* /*body*/,
                          std::size_t* /*body_bytes*/,
                          void** of_request) {
  try {
    Request request{.method = method, .path = path, .hosts = {}, .fetch_sites = {}};
    auto const headers = ::MHD_get_connection_values(connection, MHD_HEADER_KIND, nullptr, nullptr);
    int const headers_read =
        ::MHD_get_connection_values(connection, MHD_HEADER_KIND, add_header, &request);
    if (headers_read != headers) {
      return MHD_NO;
    }
    auto const answer = answer_to(request, *static_cast<Board*>(board));
    *of_request = answer.has_end ? board : nullptr;
    return send(connection, answer);
  } catch (...) {  // memory is short: this client gets no answer, and the training goes on
    return MHD_NO;
  }
}

/// Notes that a client has got how the training has ended. MHD, a library in C, calls it: no
/// exception may leave it.
void note_sent(void* board,
               MHD_Connection* /*connection*/,
               void** of_request,
               MHD_RequestTerminationCode how) noexcept {
  if (*of_request != nullptr && how == MHD_REQUEST_TERMINATED_COMPLETED_OK) {
    static_cast<Board*>(board)->note_end_is_seen();
  }
}

}  // namespace

class Server::Impl {
 public:
  Impl(std::shared_ptr<Board> board, int port, ServerLimits const& limits)
      : board_(std::move(board)), listener_(port), limits_(limits) {
    SignalsBlocked const blocked;
    daemon_.reset(::MHD_start_daemon(MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD,
                                     0,
                                     nullptr,
                                     nullptr,
                                     answer_request,
                                     board_.get(),
                                     MHD_OPTION_LISTEN_SOCKET,
                                     listener_.socket(),
                                     MHD_OPTION_CONNECTION_LIMIT,
                                     static_cast<unsigned>(limits_.connections),
                                     MHD_OPTION_CONNECTION_TIMEOUT,
                                     static_cast<unsigned>(limits_.time.count() / 1000 + 1),
                                     MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                     std::size_t{16} << 10,
                                     MHD_OPTION_NOTIFY_CONNECTION,
                                     note_connection,
                                     this,
                                     MHD_OPTION_NOTIFY_COMPLETED,
                                     note_sent,
                                     board_.get(),
                                     MHD_OPTION_END));
    if (daemon_ == nullptr) {
      throw std::runtime_error(
          fmt::format("port {}: libmicrohttpd cannot start its thread", listener_.port()));
    }
    listener_.release();  // the daemon closes the socket
    ticker_ = std::jthread([this](std::stop_token const& stop) { tick(stop); });
  }
  Impl(Impl const&) = delete;
  Impl& operator=(Impl const&) = delete;
  ~Impl() = default;

  [[nodiscard]] int port() const noexcept { return listener_.port(); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kTick{500};

  struct StopDaemon {
    void operator()(MHD_Daemon* daemon) const noexcept { ::MHD_stop_daemon(daemon); }
  };

  /// Notes when connections begin and end. Called on the daemon's thread, before it closes a
  /// socket. MHD, a library in C, calls it: no exception may leave it.
  static void note_connection(void* self,
                              MHD_Connection* connection,
                              void** /*of_socket*/,
                              MHD_ConnectionNotificationCode what) {
    auto const* const info =
        ::MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info == nullptr) {
      return;
    }
    auto& own = *static_cast<Impl*>(self);
    std::lock_guard const guard(own.mutex_);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
      try {
        own.since_[info->connect_fd] = Clock::now();
      } catch (...) {  // memory is short: nothing would end this connection later
        ::shutdown(info->connect_fd, SHUT_RDWR);
      }
    } else {
      own.since_.erase(info->connect_fd);
    }
  }

  /// Moves what is new into the curves, so that it never grows, and ends connections that last too
  /// long: a client that sends or reads a byte at a time is never idle.
  void tick(std::stop_token const& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      wake.wait_for(lock, stop, std::min(kTick, limits_.time / 4), [] { return false; });
      try {
        board_->fold();
      } catch (...) {  // NOLINT(bugprone-empty-catch): memory is short; fold() says what is lost
      }
      auto const now = Clock::now();
      std::lock_guard const guard(mutex_);
      for (auto const& [socket, since] : since_) {
        if (now - since > limits_.time) {
          ::shutdown(socket, SHUT_RDWR);
        }
      }
    }
  }

  std::shared_ptr<Board> board_;
  Listener listener_;
  ServerLimits limits_;
  std::mutex mutex_;
  std::map<int, Clock::time_point> since_;  ///< the open connections, by socket
  // Declared after all that its thread uses, so that it stops first, also if the constructor
  // throws.
  std::unique_ptr<MHD_Daemon, StopDaemon> daemon_;
  std::jthread ticker_;
};

bool Server::is_available() noexcept {
  return true;
}

Server::Server(std::shared_ptr<Board> board, int port, ServerLimits const& limits)
    : impl_(std::make_unique<Impl>(std::move(board), port, limits)) {}

Server::~Server() = default;

int Server::port() const noexcept {
  return impl_->port();
}

std::string Server::url() const {
  return fmt::format("http://127.0.0.1:{}/", port());
}

}  // namespace msstream::dashboard

#endif
