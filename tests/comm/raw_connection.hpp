// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace msstream::testing {

inline constexpr auto kLocal = "127.0.0.1";           ///< the host of a store of a test
inline constexpr auto kLong = std::chrono::hours(1);  ///< a timeout that no test reaches

/// A connection to the port of this machine, which is closed without a farewell.
class RawConnection {
 public:
  explicit RawConnection(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~RawConnection() { ::close(socket_); }
  RawConnection(RawConnection const&) = delete;
  RawConnection& operator=(RawConnection const&) = delete;

  void send(std::string const& bytes) const {
    EXPECT_EQ(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// Waits for an answer, or the end.
  void await() const {
    char byte = 0;
    static_cast<void>(::recv(socket_, &byte, 1, 0));
  }

 private:
  int socket_;
};

/// The bytes by which a client tells its rank.
[[nodiscard]] inline std::string hello_of(char rank) {
  return std::string("mSS1h\0\0\0\1\0\0\0\0", 13) + rank;
}

}  // namespace msstream::testing
