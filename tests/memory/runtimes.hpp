// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/journal.hpp"
#include "runtime/tried.hpp"

#include <msstream/memory/device.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::testing {

constexpr std::int64_t kMiB = 1 << 20;

/// A host runtime that ignores waits. It removes every order between streams that a test relies on,
/// so that the test must fail. Its copies and fills go byte by byte through atomics, because they
/// race on purpose.
class HostWithoutWaits : public Host {
 public:
  using Host::Host;
  static constexpr std::string_view name = "host without waits";

  void wait(native_stream, native_event) {}
  void copy(void* to, void const* from, std::size_t bytes, CopyKind, native_stream stream) {
    stream->enqueue([=] {
      for (std::size_t i = 0; i < bytes; ++i) {
        auto& source = const_cast<unsigned char&>(static_cast<unsigned char const*>(from)[i]);
        store(to, i, std::atomic_ref(source).load(std::memory_order_relaxed));
      }
    });
  }
  void fill(void* memory, std::uint8_t value, std::size_t bytes, native_stream stream) {
    stream->enqueue([=] {
      for (std::size_t i = 0; i < bytes; ++i) {
        store(memory, i, value);
      }
    });
  }

 private:
  static void store(void* memory, std::size_t i, unsigned char value) {
    std::atomic_ref(static_cast<unsigned char*>(memory)[i]).store(value, std::memory_order_relaxed);
  }
};
static_assert(Runtime<HostWithoutWaits>);

template <Runtime R>
inline constexpr bool keeps_waits = true;
template <>
inline constexpr bool keeps_waits<HostWithoutWaits> = false;

/// A fixture that skips the test with a message if the runtime has no device.
template <Runtime R>
class RuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (auto const reason = why_unavailable<R>(); !reason.empty()) {
      GTEST_SKIP() << R::name << ": " << reason;
    }
  }
};

}  // namespace msstream::testing
