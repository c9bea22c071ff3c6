// SPDX-License-Identifier: Apache-2.0
// Tests that an exception in work on a stream is thrown by the next call that waits for the work,
// or logged when the device is destroyed.
#include "runtime/gate.hpp"
#include "runtime/tried.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class UnheardFailureOfHost : public ::testing::Test {
 protected:
  using R = Tried<Host>;

  /// Issues an operation that reads the tensor and whose work throws when the stream runs it.
  static void fail_reading(Tensor<float, R> const& tensor) {
    issue("fails", reads(tensor), [](HostStream stream) {
      stream.run([] { throw std::runtime_error("no such row"); });
    });
  }
  /// Returns what is logged on standard error while `function` runs.
  template <class F>
  static std::string log_of(F&& function) {
    ::testing::internal::CaptureStderr();
    std::forward<F>(function)();
    return ::testing::internal::GetCapturedStderr();
  }
};

TEST_F(UnheardFailureOfHost, of_work_that_reads_a_tensor_is_thrown_by_the_next_wait_for_it) {
  for (bool const runs_late : {false, true}) {
    Device<R> const device;
    StreamPool<R> pool(device, {.groups = 1});
    auto const tensor = zeros<float>(device, {4});
    Gate gate;
    {
      StreamScope const scope(pool[0]);
      if (runs_late) {
        gate.hold(pool[0].compute());
      }
      fail_reading(tensor);
    }
    if (!runs_late) {
      EXPECT_THROW(pool[0].compute().synchronize(), std::runtime_error);
    }
    gate.open();
    EXPECT_THROW(static_cast<void>(to_host(tensor)), std::runtime_error);
  }
}

TEST_F(UnheardFailureOfHost, is_not_thrown_by_a_wait_for_what_came_before) {
  Device<R> const device;
  StreamPool<R> pool(device, {.groups = 2});
  auto const tensor = zeros<float>(device, {4});
  auto const other = zeros<float>(device, {4});
  auto const before = pool[0].compute().record();
  {
    StreamScope const scope(pool[0]);
    fail_reading(tensor);
  }
  EXPECT_NO_THROW(before.synchronize());
  EXPECT_THROW(pool[0].synchronize(), std::runtime_error);
  EXPECT_NO_THROW(before.synchronize()) << "though the failure has happened";
  EXPECT_NO_THROW(pool[1].synchronize());
  EXPECT_NO_THROW(static_cast<void>(to_host(other)));
}

TEST_F(UnheardFailureOfHost, of_work_on_a_stream_is_logged_at_the_end_of_the_device) {
  auto const log = log_of([] {
    Device<R> const device;
    fail_reading(zeros<float>(device, {4}));
  });
  EXPECT_THAT(log,
              HasSubstr("msstream: work that ran on a stream failed, and no call has waited "
                        "for it: no such row"));
}

TEST_F(UnheardFailureOfHost, that_was_thrown_is_not_logged) {
  auto const log = log_of([] {
    Device<R> const device;
    auto const tensor = zeros<float>(device, {4});
    fail_reading(tensor);
    EXPECT_THROW(static_cast<void>(to_host(tensor)), std::runtime_error);
  });
  EXPECT_THAT(log, Not(HasSubstr("no such row")));
}

template <class R>
class UnheardFailureOf : public ::testing::Test {
 protected:
  void SetUp() override {
    if (auto const reason = why_unavailable<R>(); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
  }
};
TYPED_TEST_SUITE(UnheardFailureOf, Runtimes, RuntimeNames);

TYPED_TEST(UnheardFailureOf, of_a_launch_thread_whose_pool_is_gone_is_thrown_or_logged) {
  using R = TypeParam;
  ::testing::internal::CaptureStderr();
  for (bool const is_heard : {true, false}) {
    Device<R> const device;
    auto const tensor = zeros<float>(device, {4});
    {
      StreamPool<R> pool(device, {.groups = 1, .launch_threads = LaunchThreads::shared});
      StreamScope const scope(pool[0]);
      issue("fails", reads(tensor), [is_heard](auto) {
        throw std::runtime_error(is_heard ? "thrown" : "logged");
      });
    }
    if (is_heard) {
      EXPECT_THROW(device.default_group().synchronize(), std::runtime_error);
    }
  }
  auto const log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("no call has waited for it: logged"));
  EXPECT_THAT(log, Not(HasSubstr("thrown")));
}

TYPED_TEST(UnheardFailureOf, of_a_trapped_id_is_thrown_by_a_wait_for_a_group_or_logged) {
  using R = TypeParam;
  ::testing::internal::CaptureStderr();
  for (int const waits : {0, 1, 2}) {
    Device<R> const device;
    StreamPool<R> pool(device, {.groups = 1});
    StreamScope const scope(pool[0]);
    auto const table = zeros<float>(device, {4, 2});
    auto const ids = to_device(device, std::vector<std::int64_t>{1, 7}, {2});
    static_cast<void>(
        ops::embedding_lookup(table, ops::Bags<R>(ids), {.out_of_range = ops::OutOfRange::trap}));
    if (waits == 1) {
      EXPECT_THROW(pool[0].synchronize(), std::out_of_range);
    } else if (waits == 2) {
      EXPECT_THROW(pool.synchronize(), std::out_of_range);
    }
  }
  auto const log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("no call has waited for it: "));
  EXPECT_THAT(log, HasSubstr("id 7 outside [0, 4)"));
}

}  // namespace
}  // namespace msstream::testing
