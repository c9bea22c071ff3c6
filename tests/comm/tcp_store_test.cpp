// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "comm/process_store.hpp"
#include "comm/raw_connection.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

using comm::detail::StoreAddress;
using comm::detail::TcpStore;
using comm::detail::TcpStoreServer;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(TcpStoreTest, keeps_values_by_their_keys) {
  TcpStoreServer const server(0);
  TcpStore one({{kLocal}, server.port()}, 0, kLong);
  TcpStore two({{kLocal}, server.port()}, 1, kLong);
  EXPECT_FALSE(one.get("key"));
  one.set("key", "value");
  EXPECT_EQ(two.get("key"), "value");
  two.set("key", std::string(100'000, 'x') + '\0');
  EXPECT_EQ(one.get("key"), std::string(100'000, 'x') + '\0');
  EXPECT_EQ(one.set_first("key", "other"), std::string(100'000, 'x') + '\0');
  EXPECT_EQ(one.set_first("first", "1"), "1");
  EXPECT_EQ(two.set_first("first", "2"), "1");
  two.set("empty", "");
  EXPECT_EQ(one.get("empty"), "");
  EXPECT_FALSE(one.get("never"));
}

TEST(TcpStoreTest, threads_share_a_connection) {
  TcpStoreServer const server(0);
  TcpStore store({{kLocal}, server.port()}, 0, kLong);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&store, i] {
      for (int round = 0; round < 50; ++round) {
        auto const key = std::to_string(i);
        store.set(key, key + "/" + std::to_string(round));
        EXPECT_EQ(store.get(key), key + "/" + std::to_string(round));
      }
    });
  }
}

TEST(TcpStoreTest, names_host_and_port_if_nobody_listens) {
  int port = 0;
  {
    TcpStoreServer const server(0);
    port = server.port();
  }
  EXPECT_THAT(
      message_of<std::runtime_error>([&] {
        TcpStore({{kLocal}, port}, 1, std::chrono::milliseconds(1));
      }),
      AllOf(HasSubstr("within 0.001 s: 127.0.0.1:" + std::to_string(port)), HasSubstr("refused")));
}

TEST(TcpStoreTest, names_the_port_that_is_in_use) {
  TcpStoreServer const server(0);
  EXPECT_THAT(
      message_of<std::runtime_error>([&] { TcpStoreServer const other(server.port()); }),
      AllOf(HasSubstr("port " + std::to_string(server.port())), HasSubstr("MSSTREAM_COMM_PORT")));
}

TEST(TcpStoreTest, a_process_takes_the_first_host_that_leads_to_its_store) {
  TcpStoreServer const server(0, {}, "ours");
  TcpStore const store({{"no such host", kLocal}, server.port(), "ours"}, 1, kLong);
  EXPECT_EQ(store.host(), kLocal);
}

TEST(TcpStoreTest, a_store_refuses_who_does_not_know_its_token) {
  TcpStoreServer const server(0, {}, "ours");
  for (auto const* const token : {"theirs", ""}) {
    EXPECT_THAT(message_of<std::runtime_error>([&] {
                  TcpStore({{kLocal}, server.port(), token}, 1, std::chrono::milliseconds(1));
                }),
                HasSubstr("127.0.0.1:" + std::to_string(server.port())));
  }
  TcpStore store({{kLocal}, server.port(), "ours"}, 1, kLong);
  store.set("key", "value");
  EXPECT_EQ(store.get("key"), "value");
}

TEST(TcpStoreTest, tells_that_the_server_has_ended) {
  auto server = std::make_unique<TcpStoreServer>(0);
  int const port = server->port();
  TcpStore store({{kLocal}, port}, 1, kLong);
  server.reset();
  EXPECT_THAT(message_of<std::runtime_error>([&] { store.set("key", "value"); }),
              HasSubstr("127.0.0.1:" + std::to_string(port) + " has ended"));
}

TEST(TcpStoreTest, refuses_more_than_64_mib_and_stays_connected) {
  TcpStoreServer const server(0);
  TcpStore store({{kLocal}, server.port()}, 1, kLong);
  EXPECT_THAT(
      message_of<std::length_error>([&] { store.set("key", std::string((1 << 26) + 1, 'x')); }),
      HasSubstr("'key' has 67108865 bytes; the store of rank 0 takes at most 67108864"));
  store.set("key", "value");
  EXPECT_EQ(store.get("key"), "value");
}

TEST(TcpStoreTest, a_server_that_lingers_serves_its_clients_to_their_end) {
  auto server = std::make_unique<TcpStoreServer>(0, std::chrono::hours(1));
  auto store = std::make_unique<TcpStore>(StoreAddress{{kLocal}, server->port()}, 1, kLong);
  std::jthread const ending([&] { server = nullptr; });
  constexpr int kRequests = 2000;
  for (int i = 0; i < kRequests; ++i) {
    store->set("key", std::to_string(i));
    EXPECT_EQ(store->get("key"), std::to_string(i));
  }
  store = nullptr;
}

TEST(TcpStoreTest, a_client_that_ends_without_farewell_is_gone) {
  TcpStoreServer const server(0);
  TcpStore store({{kLocal}, server.port()}, 0, kLong);
  { TcpStore const orderly({{kLocal}, server.port()}, 2, kLong); }
  EXPECT_FALSE(store.get(TcpStoreServer::kGone));
  {
    RawConnection const killed(server.port());
    killed.send(hello_of('1'));
    killed.await();
  }
  std::optional<std::string> gone;
  while (!gone) {  // the server notices the end of a connection by itself
    gone = store.get(TcpStoreServer::kGone);
  }
  EXPECT_EQ(gone, "1");
  {
    RawConnection const killed(server.port());
    killed.send(hello_of('3'));
    killed.await();
  }
  while (gone == "1") {
    gone = store.get(TcpStoreServer::kGone);
  }
  EXPECT_EQ(gone, "1 3");  // others may wait for the second one alone
}

TEST(TcpStoreTest, a_client_that_sends_something_else_is_cut_off) {
  TcpStoreServer const server(0);
  TcpStore store({{kLocal}, server.port()}, 0, kLong);
  for (auto const& bytes : {std::string("GET / HTTP/1.1\r\n\r\n"),
                            std::string("mSS1s\xff\xff\xff\xff\0\0\0\0", 13),
                            std::string("mSS1?\0\0\0\0\0\0\0\0", 13)}) {
    RawConnection const stranger(server.port());
    stranger.send(bytes);
    stranger.await();  // would never return if the server waited for more
  }
  store.set("key", "value");
  EXPECT_EQ(store.get("key"), "value");
}

}  // namespace
}  // namespace msstream::testing
