// SPDX-License-Identifier: Apache-2.0
// Tests that findings do not depend on the time at which launch threads launch an operation. Gates
// delay launches until their order differs from the order of issue.
#include "trust/checked_fixture.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <atomic>
#include <string>

namespace msstream::testing {
namespace {

using R = Checked<Host>;

/// A gate that delays launches until the test opens it.
class LaunchGate {
 public:
  ~LaunchGate() { open(); }
  void pass() const { open_.wait(false); }
  void open() {
    open_ = true;
    open_.notify_all();
  }

 private:
  std::atomic<bool> open_{false};
};

/// Memory that msstream does not manage, so the program must order the uses of it itself.
class OwnMemory {
 public:
  explicit OwnMemory(Device<R> const& device)
      : device_(device), begin_(static_cast<float*>(device.runtime().allocate_device(kBytes))) {}
  ~OwnMemory() { free(); }
  OwnMemory(OwnMemory const&) = delete;
  OwnMemory& operator=(OwnMemory const&) = delete;
  [[nodiscard]] detail::RawMemory<R> named() const {
    return raw_memory(device_, begin_, kBytes / sizeof(float));
  }
  void free() {
    if (begin_ != nullptr) {
      device_.runtime().free_device(std::exchange(begin_, nullptr), kBytes);
    }
  }

 private:
  static constexpr std::size_t kBytes = 256;
  Device<R> device_;
  float* begin_;
};

struct Mode {
  LaunchThreads threads;
  char const* name;
};
void PrintTo(Mode const& mode, std::ostream* out) {
  *out << mode.name;
}

/// A fixture with three groups, with each kind of launch threads or none. A test can delay the
/// launches of one group.
class CheckedLaunches : public ::testing::TestWithParam<Mode> {
 protected:
  [[nodiscard]] Checker& checker() const { return *device_.runtime().checker(); }
  [[nodiscard]] bool has_launch_threads() const {
    return GetParam().threads != LaunchThreads::none;
  }
  /// If each group has its own launch thread, delays launches of work issued to the group from now
  /// on until the gate is open. Other groups are not delayed.
  void hold_launches_of(int group) {
    if (GetParam().threads == LaunchThreads::per_group) {
      Tensor<float, R> const nothing(device_, {1});
      StreamScope const scope(pool_[group]);
      issue("held", writes(nothing), [this](auto) { gate_.pass(); });
    }
  }

  LaunchGate gate_;
  Device<R> const device_ = checked_device<Host>({.mode = CheckMode::count});
  StreamPool<R> pool_{device_, {.groups = 3, .launch_threads = GetParam().threads}};
};
INSTANTIATE_TEST_SUITE_P(Modes,
                         CheckedLaunches,
                         ::testing::Values(Mode{LaunchThreads::none, "none"},
                                           Mode{LaunchThreads::shared, "shared"},
                                           Mode{LaunchThreads::per_group, "per_group"}),
                         [](auto const& tested) { return std::string(tested.param.name); });

/// The race is found although the host has seen the write complete when the read is launched,
/// because it had not when the read was issued.
TEST_P(CheckedLaunches, race_is_found_although_it_is_over_when_the_read_is_launched) {
  OwnMemory memory(device_);
  hold_launches_of(1);
  {
    StreamScope const scope(pool_[0]);
    issue("refresh", writes(memory.named()), kNoWork);
  }
  {
    StreamScope const scope(pool_[1]);
    issue("read", reads(memory.named()), kNoWork);
  }
  EXPECT_EQ(only_report(checker(), CheckKind::race).second->operation, "read");
  pool_[0].compute().synchronize();
  gate_.open();
  pool_.synchronize();
  EXPECT_EQ(checker().count(), 1U) << checker().json();
}

/// A race report describes the operation that was issued first as the first one, although the other
/// one was launched first.
TEST_P(CheckedLaunches, race_names_the_first_to_be_issued_first) {
  OwnMemory memory(device_);
  hold_launches_of(0);
  {
    StreamScope const scope(pool_[0]);
    issue("first", writes(memory.named()), kNoWork);
  }
  {
    StreamScope const scope(pool_[1]);
    issue("second", writes(memory.named()), kNoWork);
  }
  gate_.open();
  pool_.synchronize();
  auto const report = only_report(checker(), CheckKind::race);
  EXPECT_EQ(report.first->operation, "first");
  EXPECT_EQ(report.second->operation, "second");
}

TEST_P(CheckedLaunches, right_programs_are_silent) {
  auto const tensor = zeros<float, R>(device_, {64});
  OwnMemory memory(device_);
  device_.default_group().compute().synchronize();
  hold_launches_of(1);
  {
    Stream<R> stream(device_);
    TensorHolder holder(stream);
    holder.hold(tensor);
    StreamScope const scope(pool_[1]);
    issue("reads beside the holder", reads(tensor), kNoWork);
    holder.release();
  }
  {
    StreamScope const scope(pool_[2]);
    issue("writes after both", writes(tensor, memory.named()), kNoWork);
  }
  gate_.open();
  pool_.synchronize();
  {
    StreamScope const scope(pool_[0]);
    issue("after the host", writes(memory.named()), kNoWork);
  }
  pool_[1].compute().wait(pool_[0].compute().record());
  {
    StreamScope const scope(pool_[1]);
    issue("after the event", reads(memory.named()), writes(tensor), kNoWork);
  }
  {
    // The tracker orders two operations because both use the tensor. The order also holds for their
    // uses of memory that the tracker does not manage.
    StreamScope const scope(pool_[2]);
    issue("after the tensor", reads(tensor), writes(memory.named()), kNoWork);
  }
  pool_.synchronize();
  EXPECT_EQ(checker().count(), 0U) << checker().json();
}

/// For the checker, a wait for an operation covers no later work of its stream, even if the event
/// is recorded late, after later work has been launched.
TEST_P(CheckedLaunches, wait_covers_what_it_waits_for_and_no_more) {
  auto const tensor = zeros<float, R>(device_, {64});
  OwnMemory memory(device_);
  device_.default_group().compute().synchronize();
  {
    StreamScope const scope(pool_[0]);
    issue("tensor", writes(tensor), kNoWork);
    issue("memory", writes(memory.named()), kNoWork);
  }
  {
    StreamScope const scope(pool_[1]);
    issue("follows the tensor alone", reads(tensor, memory.named()), kNoWork);
  }
  pool_.synchronize();
  auto const report = only_report(checker(), CheckKind::race);
  EXPECT_EQ(report.first->operation, "memory");
}

TEST_P(CheckedLaunches, own_memory_freed_right_after_issue_is_reported) {
  OwnMemory memory(device_);
  hold_launches_of(0);
  {
    StreamScope const scope(pool_[0]);
    issue("uses", writes(memory.named()), kNoWork);
  }
  memory.free();
  EXPECT_EQ(only_report(checker(), CheckKind::early_reuse).first->operation, "uses");
  gate_.open();
  pool_.synchronize();
}

TEST_P(CheckedLaunches, own_memory_freed_after_the_host_has_waited_is_silent) {
  OwnMemory memory(device_);
  {
    StreamScope const scope(pool_[0]);
    issue("uses", writes(memory.named()), kNoWork);
  }
  pool_[0].synchronize();
  memory.free();
  EXPECT_EQ(checker().count(), 0U) << checker().json();
}

TEST_P(CheckedLaunches, host_race_is_found_while_the_copy_is_not_launched) {
  auto const tensor = zeros<float, R>(device_, {64});
  PinnedArray<float, R> staged(device_, 64);
  hold_launches_of(0);
  {
    StreamScope const scope(pool_[0]);
    issue("upload", reads(staged), writes(tensor), kNoWork);
  }
  staged.host_writes();
  EXPECT_EQ(only_report(checker(), CheckKind::host_race).first->operation, "upload");
  gate_.open();
  staged.wait();
  staged.host_writes();
  EXPECT_EQ(checker().count(), 1U) << checker().json();
}

TEST_P(CheckedLaunches, operations_that_accumulate_need_no_order_among_them) {
  OwnMemory memory(device_);
  for (int i = 0; i < 2; ++i) {
    StreamScope const scope(pool_[i]);
    issue("add", accumulates(memory.named()), kNoWork);
  }
  EXPECT_EQ(checker().count(), 0U) << checker().json();
  {
    StreamScope const scope(pool_[2]);
    issue("read", reads(memory.named()), kNoWork);
  }
  auto const reports = checker().reports();
  ASSERT_EQ(reports.size(), 2U) << checker().json();
  EXPECT_EQ(reports[0].first->mode, AccessMode::accumulate);
  EXPECT_NE(reports[0].text().find("may still add into"), std::string::npos);
  pool_.synchronize();
}

/// The tracker orders accumulations into tensors, so the checker reports no race.
TEST_P(CheckedLaunches, accumulations_into_tensors_are_ordered) {
  auto const sum = zeros<float, R>(device_, {64});
  auto const other = zeros<float, R>(device_, {64});
  for (int i = 0; i < 4; ++i) {
    StreamScope const scope(pool_[i % 3]);
    auto* const elements = sum.data();
    issue("add", reads(other), writes(other, accumulates(sum)), [elements](HostStream stream) {
      stream.run([elements] { *elements += 1; });
    });
  }
  EXPECT_EQ(to_host(sum).front(), 4.0F);
  EXPECT_EQ(checker().count(), 0U) << checker().json();
}

/// The call that causes a race throws and does not launch its operation, also with launch threads.
TEST_P(CheckedLaunches, race_comes_out_of_the_call_that_issues_it) {
  auto const device = checked_device<Host>({.mode = CheckMode::throw_error});
  StreamPool<R> pool(device, {.groups = 2, .launch_threads = GetParam().threads});
  auto const tensor = zeros<float, R>(device, {64});
  device.default_group().compute().synchronize();
  OwnMemory memory(device);
  {
    StreamScope const scope(pool[0]);
    issue("first", writes(memory.named()), kNoWork);
  }
  StreamScope const scope(pool[1]);
  bool is_launched = false;
  EXPECT_THROW(
      issue("second", reads(tensor), writes(memory.named()), [&](auto) { is_launched = true; }),
      RaceError);
  issue("third", writes(tensor), kNoWork);
  pool.synchronize();
  EXPECT_FALSE(is_launched);
  issue("fourth", writes(memory.named()), kNoWork);
  pool.synchronize();
}

}  // namespace
}  // namespace msstream::testing
