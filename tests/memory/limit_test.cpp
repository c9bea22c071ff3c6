// SPDX-License-Identifier: Apache-2.0
#include "memory/runtimes.hpp"

#include <msstream/stream/stream_pool.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/tensor.hpp>

#include <algorithm>
#include <barrier>
#include <optional>
#include <thread>

namespace msstream::testing {
namespace {

constexpr int kThreads = 16;
constexpr std::int64_t kMiB = 1 << 20;

/// Measures how much device memory is out at most, without the pool's own books.
class HostThatMeasures : public Host {
 public:
  using Host::Host;
  static constexpr std::string_view name = "host that measures";

  void* allocate_device(std::size_t bytes) {
    auto const now = out_.fetch_add(bytes) + bytes;
    for (auto most = most_.load(); most < now && !most_.compare_exchange_weak(most, now);) {
    }
    return Host::allocate_device(bytes);
  }
  void free_device(void* memory, std::size_t bytes) noexcept {
    Host::free_device(memory, bytes);
    out_.fetch_sub(bytes);
  }
  [[nodiscard]] std::size_t most_bytes() const { return most_.load(); }

 private:
  std::atomic<std::size_t> out_{0};
  std::atomic<std::size_t> most_{0};
};

using Bytes = Tensor<std::uint8_t, HostThatMeasures>;

[[nodiscard]] Device<HostThatMeasures> device_of(std::size_t limit_bytes) {
  DeviceOptions<HostThatMeasures> options;
  options.memory.limit_bytes = limit_bytes;
  return Device<HostThatMeasures>(options);
}

/// How many of the threads' allocations succeed when all are made and held at once.
[[nodiscard]] int held_at_once(Device<HostThatMeasures> const& device,
                               std::int64_t bytes,
                               int attempts_per_thread) {
  std::atomic<int> held{0};
  std::barrier all(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      std::vector<Bytes> mine;
      all.arrive_and_wait();
      for (int attempt = 0; attempt < attempts_per_thread; ++attempt) {
        try {
          mine.emplace_back(device, Shape{bytes});
          ++held;
        } catch (OutOfMemory const&) {
        }
      }
      all.arrive_and_wait();
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  return held;
}

TEST(Limit, racing_threads_get_exactly_what_there_is_of_large_blocks) {
  auto const device = device_of(16 * kMiB);
  EXPECT_EQ(held_at_once(device, 2 * kMiB, 1), 8);
  EXPECT_EQ(device.context()->runtime->most_bytes(), 16U * kMiB);
}

TEST(Limit, racing_threads_get_exactly_what_there_is_of_small_blocks) {
  auto const device = device_of(8 * kMiB);
  EXPECT_EQ(held_at_once(device, kMiB / 4, 4), 32);
  EXPECT_EQ(device.context()->runtime->most_bytes(), 8U * kMiB);
}

TEST(Limit, is_never_exceeded_while_threads_allocate_use_and_free) {
  auto const device = device_of(16 * kMiB);
  StreamPool pool(device, {.groups = 4});
  std::atomic<int> refused{0};
  std::barrier all(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      StreamScope const scope(pool[i % 4]);
      for (int round = 0; round < 20; ++round) {
        all.arrive_and_wait();
        // Sizes change from round to round, so that cached memory has to go back to the runtime.
        std::int64_t const bytes = (2 + round % 3) * kMiB;
        try {
          Bytes const tensor(device, {bytes});
          fill_bytes(tensor, static_cast<std::uint8_t>(i));
          auto const elements = to_host(tensor);
          EXPECT_TRUE(
              std::all_of(elements.begin(), elements.end(), [&](auto byte) { return byte == i; }));
        } catch (OutOfMemory const&) {
          ++refused;
        }
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_LT(refused, 20 * kThreads) << "nobody got anything";
  EXPECT_LE(device.context()->runtime->most_bytes(), 16U * kMiB);
  EXPECT_LE(device.memory_statistics().peak_reserved_bytes, 16U * kMiB);
  EXPECT_EQ(device.memory_statistics().live_bytes, 0U);
}

TEST(Limit, SmallBlocksThatAreAllFreeMakeRoomForALargeOne) {
  constexpr std::size_t kLimit = std::size_t{64} << 20U;
  Device<Host> const device({.memory = {.limit_bytes = kLimit}});
  {
    std::vector<Tensor<std::uint8_t, Host>> small;
    for (int i = 0; i < 48; ++i) {
      small.emplace_back(device, Shape{1 << 20});
    }
    EXPECT_THROW((Tensor<std::uint8_t, Host>(device, {32 << 20})), OutOfMemory);
  }
  Tensor<std::uint8_t, Host> const large(device, {32 << 20});
  EXPECT_LE(device.memory_statistics().reserved_bytes, kLimit);
}

TEST(Limit, GrowthIsAsLargeAsItWasAskedToBe) {
  for (std::size_t const growth : {std::size_t{1} << 16U, std::size_t{32} << 20U}) {
    Device<Host> const device({.memory = {.max_growth_bytes = growth}});
    Tensor<std::uint8_t, Host> const small(device, {256});
    EXPECT_EQ(device.memory_statistics().reserved_bytes, growth);
  }
}

}  // namespace
}  // namespace msstream::testing
