// SPDX-License-Identifier: Apache-2.0
// Tests what happens before an allocation fails, what the exception OutOfMemory says, and that the
// device is usable after a failed allocation.
#include "memory/behind_gate.hpp"
#include "memory/watched_runtime.hpp"
#include "runtime/gate.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>
#include <msstream/trace/name_scope.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;
using Bytes = Tensor<std::uint8_t, Host>;

constexpr std::size_t kLimit = std::size_t{64} << 20U;
/// A memory limit of too few pages for moving pages, so that memory comes in separate pieces.
constexpr std::size_t kInPieces = std::size_t{60} << 20U;

[[nodiscard]] std::string message_of(Device<Host> const& device, std::int64_t bytes) {
  try {
    Bytes const tensor(device, {bytes});
  } catch (OutOfMemory const& error) {
    EXPECT_EQ(error.requested_bytes(), static_cast<std::size_t>(bytes));
    return error.what();
  }
  ADD_FAILURE() << "there was memory";
  return {};
}

TEST(OutOfMemoryReport, says_what_was_asked_and_who_has_what) {
  Device<Host> const device({.memory = {.limit_bytes = kLimit}});
  StreamPool pool(device, {.groups = 2, .launch_threads = LaunchThreads::none});
  std::vector<Bytes> held;
  {
    StreamScope const scope(pool[1]);
    NameScope const model("model");
    NameScope const tower("tower");
    held.emplace_back(device, Shape{24 * kMiB});
    held.emplace_back(device, Shape{16 * kMiB});
  }
  held.emplace_back(device, Shape{8 * kMiB});
  auto const message = message_of(device, 32 * kMiB);
  EXPECT_THAT(message, HasSubstr("device memory: 33554432 bytes asked; 50331648 in use"));
  EXPECT_THAT(message, HasSubstr("under a limit of 67108864"));
  EXPECT_THAT(
      message,
      HasSubstr("\n  41943040 bytes in 2 blocks: model/tower, group 1 compute"
                "\n  8388608 bytes in 1 blocks: outside all scopes, default group compute"));
}

TEST(OutOfMemoryReport, says_what_is_free_and_what_waits_for_the_device) {
  Device<Host> const device(
      {.memory = {.limit_bytes = kLimit, .wait_for_frees = std::chrono::milliseconds(0)}});
  StreamPool pool(device, {.groups = 1, .launch_threads = LaunchThreads::none});
  std::optional<Bytes> front(std::in_place, device, Shape{16 * kMiB});
  Bytes const middle(device, {16 * kMiB});
  std::optional<Bytes> back(std::in_place, device, Shape{8 * kMiB});
  Bytes const end(device, {16 * kMiB});
  Gate gate;
  gate.hold(pool[0].compute());
  {
    StreamScope const scope(pool[0]);
    fill_bytes(*front, 1);
  }
  front.reset();
  back.reset();
  auto const message = message_of(device, 40 * kMiB);
  EXPECT_THAT(message, HasSubstr("the largest free range has 16777216"));
  EXPECT_THAT(message, HasSubstr("16777216 wait for work on the device"));
}

TEST(OutOfMemoryReport, names_those_of_other_pools_under_the_same_limit) {
  Device<Host> const device({.memory = {.limit_bytes = kLimit,
                                        .mode = PoolMode::private_pools_one_limit,
                                        .private_pools = 2,
                                        .wait_for_frees = std::chrono::milliseconds(0)}});
  StreamPool pool(device, {.groups = 2, .launch_threads = LaunchThreads::none});
  std::optional<Bytes> hog;
  {
    NameScope const name("hog");
    StreamScope const scope(pool[0]);
    hog.emplace(device, Shape{60 * kMiB});
  }
  StreamScope const scope(pool[1]);
  try {
    Bytes const refused(device, {32 * kMiB});
    FAIL();
  } catch (OutOfMemory const& error) {
    EXPECT_THAT(error.what(), HasSubstr("62914560 in use"));
    EXPECT_THAT(error.what(), HasSubstr("hog"));
  }
}

TEST(OutOfMemoryRecovery, asks_whether_something_can_be_let_go) {
  std::vector<Bytes> cache;
  int asked = 0;
  Device<Host> const device(
      {.memory = {.limit_bytes = kLimit, .on_out_of_memory = [&](OutOfMemory const& error) {
                    EXPECT_EQ(error.requested_bytes(), 48U * kMiB);
                    ++asked;
                    bool const had_some = !cache.empty();
                    if (had_some) {
                      cache.pop_back();
                    }
                    return had_some;
                  }}});
  for (int i = 0; i < 3; ++i) {
    cache.emplace_back(device, Shape{16 * kMiB});
  }
  {
    Bytes const large(device, {48 * kMiB});
    EXPECT_EQ(asked, 2);
    EXPECT_EQ(cache.size(), 1U);
  }
  cache.clear();
  Bytes const other(device, {32 * kMiB});
  asked = 0;
  EXPECT_THROW(Bytes(device, {48 * kMiB}), OutOfMemory);
  EXPECT_EQ(asked, 1) << "it had nothing";
}

TEST(OutOfMemoryRecovery, an_exception_of_whoever_is_asked_comes_out) {
  Device<Host> const device(
      {.memory = {.limit_bytes = kLimit, .on_out_of_memory = [](OutOfMemory const&) -> bool {
                    throw std::logic_error("no");
                  }}});
  {
    Bytes const most(device, {48 * kMiB});
    EXPECT_THROW(Bytes(device, {32 * kMiB}), std::logic_error);
    EXPECT_THROW(Bytes(device, {65 * kMiB}), OutOfMemory) << "nothing helps: nobody is asked";
  }
  Bytes const fits(device, {64 * kMiB});
}

/// Returns a thread that opens the gate after 50 more calls of the runtime. An allocation that
/// waits for memory makes them: it queries again and again which work is complete.
[[nodiscard]] std::jthread opens_once_asked(Gate& gate, Watch const& watch) {
  return std::jthread([&gate, &watch, before = watch.calls.load()](std::stop_token const& stop) {
    while (watch.calls < before + 50 && !stop.stop_requested()) {
      std::this_thread::yield();
    }
    gate.open();
  });
}

constexpr char const* kCudaWaitsItself = "giving a piece back waits for the device";

/// A fixture with two free pieces of memory, of which the first is in use on a stream that the test
/// holds. Once both have gone back to the runtime, there is enough memory for allocate().
template <class TypeParam>
class FreesElsewhere : public RuntimeTest<TypeParam> {
 protected:
  using R = Watched<TypeParam>;
  using Tensors = Tensor<std::uint8_t, R>;

  void open(std::chrono::milliseconds wait_for_frees) {
    device.emplace(
        watched_device<TypeParam>({.limit_bytes = kInPieces, .wait_for_frees = wait_for_frees}));
    pool.emplace(*device, StreamPoolOptions{.groups = 1, .launch_threads = LaunchThreads::none});
    std::optional<Tensors> front(std::in_place, *device, Shape{24 * kMiB});
    middle.emplace(*device, Shape{16 * kMiB});
    std::optional<Tensors> back(std::in_place, *device, Shape{20 * kMiB});
    gate.hold((*pool)[0].compute());
    StreamScope const scope((*pool)[0]);
    issue("use", writes(*front), [](auto) {});
  }
  [[nodiscard]] Tensors allocate() const { return Tensors(*device, {40 * kMiB}); }

  Gate gate;
  std::optional<Device<R>> device;
  std::optional<StreamPool<R>> pool;
  std::optional<Tensors> middle;
};
TYPED_TEST_SUITE(FreesElsewhere, Runtimes, RuntimeNames);

TYPED_TEST(FreesElsewhere, are_waited_for_while_another_thread_lets_the_stream_go_on) {
  if (is_cuda<TypeParam>) {
    GTEST_SKIP() << kCudaWaitsItself;
  }
  this->open(std::chrono::minutes(10));
  auto const opener = opens_once_asked(this->gate, watch_of(*this->device));
  auto const large = this->allocate();
  EXPECT_LE(watch_of(*this->device).most_device_bytes, kInPieces);
}

TYPED_TEST(FreesElsewhere, in_another_pool_under_the_same_limit_are_waited_for_too) {
  this->device.emplace(watched_device<TypeParam>({.limit_bytes = kLimit,
                                                  .mode = PoolMode::private_pools_one_limit,
                                                  .private_pools = 2,
                                                  .wait_for_frees = std::chrono::minutes(10)}));
  this->pool.emplace(*this->device,
                     StreamPoolOptions{.groups = 2, .launch_threads = LaunchThreads::none});
  auto const& first = (*this->pool)[0];
  {
    StreamScope const scope(first);
    auto const block = this->allocate();
    this->gate.hold(first.compute());
    issue("use", writes(block), [](auto) {});
  }
  auto const opener = opens_once_asked(this->gate, watch_of(*this->device));
  StreamScope const scope((*this->pool)[1]);
  auto const second = this->allocate();
  EXPECT_LE(watch_of(*this->device).most_device_bytes, kLimit);
}

TYPED_TEST(FreesElsewhere, are_not_waited_for_for_ever_by_who_must_let_the_stream_go_on) {
  if (is_cuda<TypeParam>) {
    GTEST_SKIP() << kCudaWaitsItself;
  }
  this->open(std::chrono::milliseconds(50));
  EXPECT_TRUE(returns_behind(
      this->gate, [&] { EXPECT_THROW(static_cast<void>(this->allocate()), OutOfMemory); }));
  // After the failed allocation the pool still works: free memory is allocated at once where it
  // suffices, and more once the work that uses it is complete.
  fill_bytes(*this->middle, 7);
  typename TestFixture::Tensors const fits(*this->device, {16 * kMiB});
  issue("use", writes(fits), [](auto) {});
  this->gate.open();
  this->pool->synchronize();
  EXPECT_EQ(to_host(this->middle->rows(0, 3)), std::vector<std::uint8_t>(3, 7));
  EXPECT_NO_THROW(static_cast<void>(typename TestFixture::Tensors(*this->device, {28 * kMiB})));
}

}  // namespace
}  // namespace msstream::testing
