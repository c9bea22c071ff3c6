// SPDX-License-Identifier: Apache-2.0
// Tests that a wait of the host is refused at once inside the work of a stream, because the wait
// could be for that very work.
#include "runtime/tried.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class WaitInsideWork : public ::testing::Test {
 protected:
  using Waits = std::vector<std::pair<std::string, std::function<void()>>>;

  void SetUp() override {
    if (auto const reason = why_unavailable<R>(); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
  }
  /// Returns all calls by which the host can wait for work of the device, with their names.
  static Waits waits(StreamPool<R>& pool,
                     Tensor<float, R> const& tensor,
                     PinnedArray<float, R> const& pinned,
                     Event<R> const& event) {
    return {{"to_host", [&] { static_cast<void>(to_host(tensor)); }},
            {"freeze", [&] { Tensor<float, R>(tensor).freeze(); }},
            {"PinnedArray::wait", [&] { pinned.wait(); }},
            {"StreamPool::synchronize", [&] { pool.synchronize(); }},
            {"StreamGroup::synchronize", [&] { pool[0].synchronize(); }},
            {"Stream::synchronize", [&] { pool[0].compute().synchronize(); }},
            {"Event::synchronize", [&] { event.synchronize(); }}};
  }
  static std::string call(std::function<void()> const& wait) {
    try {
      wait();
    } catch (std::logic_error const& error) {
      return error.what();
    }
    return "nothing thrown";
  }
};
TYPED_TEST_SUITE(WaitInsideWork, Runtimes, RuntimeNames);

TYPED_TEST(WaitInsideWork, of_a_host_function_on_a_stream_is_refused) {
  using R = TypeParam;
  Device<R> const device;
  StreamPool<R> pool(device, {.groups = 1});
  auto const tensor = zeros<float>(device, {4});
  PinnedArray<float, R> const pinned(device, 4);
  auto const event = pool[0].compute().record();
  auto* const runtime = &device.runtime();
  for (auto const& [name, named] : this->waits(pool, tensor, pinned, event)) {
    auto const& wait = named;
    auto const told = std::make_shared<std::promise<std::string>>();
    StreamScope const scope(pool[0]);
    issue("waits",
          reads(tensor),
          NativeWork{[runtime, told, &wait](typename R::native_stream stream) {
            runtime->call_host(stream, [told, &wait] { told->set_value(TestFixture::call(wait)); });
          }});
    EXPECT_NE(told->get_future().get().find("inside work that runs on a stream"), std::string::npos)
        << name;
  }
  EXPECT_EQ(to_host(tensor), std::vector<float>(4));
}

TYPED_TEST(WaitInsideWork, of_what_launches_an_operation_is_refused) {
  using R = TypeParam;
  Device<R> const device;
  for (auto const threads : {LaunchThreads::none, LaunchThreads::shared}) {
    StreamPool<R> pool(device, {.groups = 1, .launch_threads = threads});
    auto const tensor = zeros<float>(device, {4});
    PinnedArray<float, R> const pinned(device, 4);
    auto const event = pool[0].compute().record();
    for (auto const& [name, named] : this->waits(pool, tensor, pinned, event)) {
      auto const& wait = named;
      auto const told = std::make_shared<std::promise<std::string>>();
      StreamScope const scope(pool[0]);
      issue("waits", reads(tensor), [told, &wait](auto) {
        told->set_value(TestFixture::call(wait));
      });
      EXPECT_NE(told->get_future().get().find("inside the work of the operation 'waits'"),
                std::string::npos)
          << name;
    }
    EXPECT_EQ(to_host(tensor), std::vector<float>(4));
  }
}

}  // namespace
}  // namespace msstream::testing
