// SPDX-License-Identifier: Apache-2.0
// Tests that the environment variable MSSTREAM_CHECK makes a program check its devices, although
// the program does not use Checked.
#include "runtime/tried.hpp"
#include "trust/checked_fixture.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>

#include <cstdlib>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace msstream::testing {
namespace {

constexpr char const* kCheck = "MSSTREAM_CHECK";

/// A device that a test never destroys, reachable for leak checkers.
Device<Host>* leaked_device = nullptr;

template <class Plain>
class CheckedByVariable : public ::testing::Test {
 protected:
  void SetUp() override {
    if (auto const why = why_unavailable<Plain>(); !why.empty()) {
      GTEST_SKIP() << why;
    }
  }
  void TearDown() override { unsetenv(kCheck); }

  /// Issues two writes of the same memory to two groups without an order between them, which is a
  /// race.
  static void race(Device<Plain> const& device) {
    StreamPool pool(device, {.groups = 2});
    Tensor<float, Plain> const shared(device, {64});
    for (int group = 0; group < 2; ++group) {
      StreamScope const scope(pool[group]);
      issue(group == 0 ? "first" : "second", writes(raw(device, shared)), kNoWork);
    }
  }
};
TYPED_TEST_SUITE(CheckedByVariable, PlainRuntimes, RuntimeNames);

TYPED_TEST(CheckedByVariable, finds_a_race_of_a_plain_device) {
  setenv(kCheck, "1", 1);
  Device<TypeParam> const device;
  try {
    TestFixture::race(device);
    FAIL() << "the race is not found";
  } catch (RaceError const& error) {
    EXPECT_EQ(name_of(error.report().kind), name_of(CheckKind::race));
    EXPECT_EQ(error.report().second->operation, "second");
  }
}

/// The program has no checker to ask, so the counts are written when the last device is gone.
TYPED_TEST(CheckedByVariable, writes_the_counts_of_findings_that_are_only_counted) {
  setenv(kCheck, "1", 1);
  setenv("MSSTREAM_CHECK_MODE", "count", 1);
  ::testing::internal::CaptureStderr();
  {
    Device<TypeParam> const first;
    Device<TypeParam> const second;
    EXPECT_NO_THROW(TestFixture::race(first));
    EXPECT_NO_THROW(TestFixture::race(second));
  }
  unsetenv("MSSTREAM_CHECK_MODE");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "msstream check: findings: 2 (race: 2)\n");
}

/// A device that is never destroyed has leaks, which are counted once.
TEST(CheckedByVariableProcess, exit_writes_the_counts_of_a_device_that_is_not_destroyed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto const end = [] {
    setenv(kCheck, "1", 1);
    setenv("MSSTREAM_CHECK_MODE", "count", 1);
    leaked_device = new Device<Host>;
    auto const& device = leaked_device;
    StreamPool pool(*device, {.groups = 2});
    Tensor<float, Host> const shared(*device, {64});
    for (int group = 0; group < 2; ++group) {
      StreamScope const scope(pool[group]);
      issue("write", writes(raw(*device, shared)), kNoWork);
    }
    std::exit(0);
  };
  EXPECT_EXIT(end(),
              ::testing::ExitedWithCode(0),
              "^msstream check: findings: [0-9]+ \\(race: 1, leak: [0-9]+\\)\n$");
}

TYPED_TEST(CheckedByVariable, is_for_devices_made_while_it_is_set) {
  Device<TypeParam> const before;
  setenv(kCheck, "1", 1);
  EXPECT_NO_THROW(TestFixture::race(before));
  setenv(kCheck, "0", 1);
  EXPECT_NO_THROW(TestFixture::race(Device<TypeParam>()));
}

TYPED_TEST(CheckedByVariable, keeps_the_runtime_type) {
  setenv(kCheck, "1", 1);
  Device<TypeParam> const device;
  static_assert(std::is_same_v<decltype(device.runtime()), TypeParam&>);
  std::vector<float> const ones(64, 1.0F);
  EXPECT_EQ(to_host(to_device(device, ones, {64})), ones);
}

TYPED_TEST(CheckedByVariable, lets_devices_share_a_tracker) {
  setenv(kCheck, "1", 1);
  Device<TypeParam> const first;
  Device<TypeParam> const second({.tracker = first.tracker()});
  StreamPool pool(second, {.groups = 1});
  Tensor<float, TypeParam> const made(first, {64});
  issue("make", writes(made), kNoWork);
  StreamScope const scope(pool[0]);
  EXPECT_NO_THROW(issue("use", reads(made), kNoWork));
}

TYPED_TEST(CheckedByVariable, does_not_share_a_tracker_with_a_plain_device) {
  Device<TypeParam> const plain;
  setenv(kCheck, "1", 1);
  EXPECT_THROW(Device<TypeParam>({.tracker = plain.tracker()}), std::invalid_argument);
}

TYPED_TEST(CheckedByVariable, refuses_other_values) {
  setenv(kCheck, "perhaps", 1);
  EXPECT_THROW(Device<TypeParam>(), std::invalid_argument);
}

}  // namespace
}  // namespace msstream::testing
