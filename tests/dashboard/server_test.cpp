// SPDX-License-Identifier: Apache-2.0
#include "dashboard/server.hpp"

#include "dashboard/board.hpp"
#include "dashboard/client.hpp"
#include "dashboard/dashboard.hpp"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <future>
#include <iostream>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace msstream::dashboard {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class DashboardServer : public testing::Test {
 protected:
  static constexpr ServerLimits kLimits{.connections = 8, .time = std::chrono::milliseconds(300)};

  void SetUp() override {
    if (!Server::is_available()) {
      GTEST_SKIP() << "the build has no libmicrohttpd (libmicrohttpd-dev)";
    }
    board_ = std::make_shared<Board>(Description{.program = "<b>hostile</b>"});
    server_ = std::make_unique<Server>(board_, 0, kLimits);
  }

  std::shared_ptr<Board> board_;
  std::unique_ptr<Server> server_;
};

TEST_F(DashboardServer, answers_and_closes) {
  board_->note_step(0.5F, 64);
  auto const page = get(server_->port(), "/");
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(page, HasSubstr("</html>"));
  auto const state = get(server_->port(), "/state.json?anything");
  EXPECT_THAT(state, HasSubstr("\"loss\":0.5"));
  EXPECT_TRUE(board_->is_watched());
  EXPECT_EQ(server_->url(), fmt::format("http://127.0.0.1:{}/", server_->port()));
}

TEST_F(DashboardServer, every_answer_has_the_headers) {
  for (auto const* const path : {"/", "/state.json", "/nothing"}) {
    auto const answer = get(server_->port(), path);
    EXPECT_THAT(answer, HasSubstr("Content-Security-Policy: default-src 'none'")) << path;
    EXPECT_THAT(answer, HasSubstr("X-Content-Type-Options: nosniff")) << path;
    EXPECT_THAT(answer, HasSubstr("Cross-Origin-Resource-Policy: same-origin")) << path;
    EXPECT_THAT(answer, HasSubstr("Cache-Control: no-store")) << path;
    EXPECT_THAT(answer, Not(HasSubstr("Access-Control"))) << path;
  }
}

TEST_F(DashboardServer, hostile_names_are_json) {
  auto const state = get(server_->port(), "/state.json");
  EXPECT_THAT(state, HasSubstr("Content-Type: application/json"));
  EXPECT_THAT(state, HasSubstr("<b>hostile</b>"));
  EXPECT_THAT(get(server_->port(), "/"), Not(HasSubstr("hostile")));
}

TEST_F(DashboardServer, refuses_foreign_hosts_and_other_methods) {
  auto const port = server_->port();
  EXPECT_THAT(get(port, "/state.json", "evil.example"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(answer_of(port, "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"),
              Not(HasSubstr("200 OK")));
  EXPECT_THAT(answer_of(port, "GET / HTTP/1.1\r\n\r\n"), Not(HasSubstr("200 OK")));
  EXPECT_THAT(answer_of(port, "GET / HTTP/1.0\r\n\r\n"), Not(HasSubstr("200 OK")));
  auto const posted =
      answer_of(port, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n012345678");
  EXPECT_THAT(posted, StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(posted, HasSubstr("Allow: GET"));
  EXPECT_THAT(answer_of(port, "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              StartsWith("HTTP/1.1 405"));
}

TEST_F(DashboardServer, refuses_pages_of_other_sites) {
  EXPECT_THAT(answer_of(server_->port(),
                        "GET /state.json HTTP/1.1\r\nHost: localhost\r\n"
                        "sec-fetch-site: cross-site\r\n\r\n"),
              StartsWith("HTTP/1.1 403"));
  EXPECT_FALSE(board_->is_watched());
}

TEST_F(DashboardServer, survives_requests_that_are_none) {
  auto const port = server_->port();
  for (auto const& bytes : {std::string("\r\n\r\n"),
                            std::string("\0\0\0\0\r\n\r\n", 8),
                            std::string("GET\r\n\r\n"),
                            std::string("GET / HTTP/9.9\r\nHost: localhost\r\n\r\n"),
                            std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 15),
                            std::string("GET / HTTP/1.1\r\nHost: localhost\r\nA: ") +
                                std::string(100'000, 'a') + "\r\n\r\n",
                            "GET /" + std::string(100'000, 'a') + " HTTP/1.1\r\n\r\n"}) {
    Client client(port);
    client.send(bytes);
    EXPECT_THAT(client.read_all(), Not(HasSubstr("200 OK")));
    EXPECT_TRUE(client.closed());
  }
  EXPECT_THAT(get(port, "/state.json"), StartsWith("HTTP/1.1 200"));
}

// More clients than connections: those that send nothing are ended, and the others get answers.
TEST_F(DashboardServer, silent_clients_do_not_keep_others_out_for_long) {
  std::deque<Client> silent;
  for (int i = 0; i < 2 * kLimits.connections; ++i) {
    silent.emplace_back(server_->port());
  }
  for (int i = 0; i < 8; ++i) {
    EXPECT_THAT(get(server_->port(), "/state.json"), StartsWith("HTTP/1.1 200"));
  }
  for (auto& client : silent) {
    EXPECT_EQ(client.read_all(), "");
    EXPECT_TRUE(client.closed());
  }
}

// A client that sends a byte at a time is never idle, and ends all the same.
TEST_F(DashboardServer, a_slow_client_is_ended) {
  Client slow(server_->port());
  slow.send("GET / HTTP/1.1\r\nHost: localhost\r\nX: ");
  auto const begin = std::chrono::steady_clock::now();
  std::string answer;
  while (!slow.closed() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(60)) {
    slow.send("a");
    answer += slow.read_all(20);
  }
  EXPECT_TRUE(slow.closed());
  EXPECT_THAT(answer, Not(HasSubstr("200 OK")));
}

TEST_F(DashboardServer, a_port_in_use_is_an_error_that_names_it) {
  try {
    Server const second(board_, server_->port());
    FAIL() << "two servers have one port";
  } catch (std::runtime_error const& error) {
    EXPECT_THAT(error.what(),
                HasSubstr(fmt::format("port {} of 127.0.0.1 is in use", server_->port())));
  }
}

TEST_F(DashboardServer, ends_with_clients_that_are_open) {
  Client open(server_->port());
  open.send("GET / HT");
  server_.reset();
  static_cast<void>(open.read_all());
  EXPECT_TRUE(open.closed());
}

TEST_F(DashboardServer, listens_only_on_this_machine) {
  // The other addresses of 127.0.0.0/8 reach a socket that listens on all addresses.
  int const socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ::sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(server_->port()));
  address.sin_addr.s_addr = ::inet_addr("127.0.0.2");
  EXPECT_NE(::connect(socket, reinterpret_cast<::sockaddr*>(&address), sizeof address), 0);
  ::close(socket);
}

// The program may end as soon as end() returns: by then, a client has the end.
TEST_F(DashboardServer, waits_until_a_client_has_got_the_end) {
  Dashboard dashboard(Description{}, 0);
  auto const port = std::stoi(dashboard.url().substr(std::string("http://127.0.0.1:").size()));
  EXPECT_THAT(get(port, "/state.json"), HasSubstr("\"end\":null"));  // somebody watches
  dashboard.board()->note_metric("AUC", 0.625);
  auto ended = std::async(std::launch::async, [&] {
    return dashboard.end({EndStatus::diverged, "diverged at step 7"}, std::chrono::hours(24));
  });
  // Other parts of the page, and answers from before the end, do not count.
  std::string state;
  do {
    static_cast<void>(get(port, "/page.js"));
    state = get(port, "/state.json");
  } while (state.find("\"end\":null") != std::string::npos);
  EXPECT_THAT(state, HasSubstr(R"("end":{"status":"diverged","text":"diverged at step 7"})"));
  EXPECT_THAT(state, HasSubstr("\"value\":0.625"));
  EXPECT_TRUE(ended.get());
}

TEST_F(DashboardServer, waits_for_nobody_if_nobody_watches) {
  Dashboard dashboard(Description{}, 0);
  EXPECT_FALSE(dashboard.end({EndStatus::finished, "finished"}, std::chrono::hours(24)));
}

// A client that has asked, and then does not ask for the end.
TEST_F(DashboardServer, waits_no_longer_than_it_may) {
  Dashboard dashboard(Description{}, 0);
  auto const port = std::stoi(dashboard.url().substr(std::string("http://127.0.0.1:").size()));
  static_cast<void>(get(port, "/state.json"));
  EXPECT_FALSE(dashboard.end({EndStatus::finished, "finished"}, std::chrono::milliseconds(1)));
}

TEST(DashboardWithoutServer, has_commands_for_the_folder_of_this_build) {
  auto const commands = commands_for_servers("train_ple");
  EXPECT_THAT(commands, HasSubstr("apt-get install libmicrohttpd-dev"));
  EXPECT_THAT(commands, HasSubstr("--target train_ple"));
  auto const begin = commands.find('\'') + 1;
  auto const folder = commands.substr(begin, commands.find('\'', begin) - begin);
  EXPECT_TRUE(std::filesystem::exists(folder + "/CMakeCache.txt")) << folder;
}

// For page_test.py: with MSSTREAM_TEST_SERVES set, serves a training with hostile names until the
// standard input ends. At a byte from there, the training ends; the server goes on.
TEST_F(DashboardServer, serves_the_page_test) {
  if (::getenv("MSSTREAM_TEST_SERVES") == nullptr) {
    GTEST_SKIP() << "for page_test.py alone";
  }
  std::string const hostile =
      "<img src=x onerror=\"window.hostile=1\"><script>window.hostile=1</script>";
  auto const board = std::make_shared<Board>(
      Description{.program = hostile, .what = hostile, .unit = "lists", .ranks = 2});
  Server const server(board, 0);
  std::cout << server.url() << std::endl;
  board->note_part(hostile);
  // More steps than a curve has points, one of them with a loss that stands out.
  for (int step = 1; step <= 3000; ++step) {
    board->note_step(step == 1000 ? 4.F : 1.F / static_cast<float>(step), 64);
  }
  ::pollfd input{STDIN_FILENO, POLLIN, 0};
  for (int step = 3001;; ++step) {
    if (::poll(&input, 1, 2) != 0) {
      char byte = 0;
      if (::read(STDIN_FILENO, &byte, 1) != 1) {
        break;
      }
      board->note_step(std::numeric_limits<float>::quiet_NaN(), 64);
      board->note_end({EndStatus::diverged, "diverged at step 7 of " + hostile});
      ::poll(&input, 1, -1);
      break;
    }
    board->note_step(1.F / static_cast<float>(step), 64);
    if (step % 50 == 1) {
      MemoryStatistics statistics;
      statistics.live_bytes = static_cast<std::size_t>(step) << 10U;
      statistics.reserved_bytes = std::size_t{1} << 22U;
      StreamMemory stream;
      stream.stream = hostile + " compute";
      stream.live_bytes = statistics.live_bytes;
      board->note_memory(statistics, {stream});
      board->note_metric("AUC of " + hostile, 0.5 + 0.4 * (1 - 1. / step));
      board->note_timeline(step,
                           trace::Timeline({{hostile, "group 0 compute", 0, 4000, 0, 1},
                                            {hostile, "group 0 compute", 4000, 5000, 0, 2},
                                            {"b", hostile, 2000, 9000, 1, 1}}));
    }
  }
}

}  // namespace
}  // namespace msstream::dashboard
