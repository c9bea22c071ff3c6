// SPDX-License-Identifier: Apache-2.0
// Tests of the checks of captured work, during the capture and at each replay.
#include "trust/checked_fixture.hpp"

#include <msstream/step/captured_step.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/trace/name_scope.hpp>

#include <string>
#include <vector>

namespace msstream::testing {
namespace {

class CheckedCaptures : public CheckedProgram<Host> {
 protected:
  void issue_to(int group_index, char const* name, auto const& uses) {
    StreamScope const scope(group(group_index));
    issue(name, uses, kNoWork);
  }
};

TEST_F(CheckedCaptures, of_right_programs_are_silent_to_the_end) {
  {
    auto const x = to_device(device(), std::vector<float>(kCount, 1.0F), {kCount});
    auto const y = zeros<float, R>(device(), {kCount});
    std::optional<Tensor<float, R>> out;
    CapturedStep step(device(), [&] {
      Tensor<float, R> const inside(device(), {kCount});
      {
        StreamScope const scope(group(0));
        copy(inside, x);
      }
      StreamScope const scope(group(1));
      copy(y, inside);
      out = zeros<float, R>(device(), {kCount});
    });
    for (int i = 0; i < 3; ++i) {
      StreamScope const scope(group(i % 2));
      fill_bytes(x, static_cast<std::uint8_t>(i));
      step.replay();
      copy(x, y);
    }
    EXPECT_EQ(to_host(y).size(), to_host(*out).size());
    CapturedStep again(device(), [&] { copy(x, y); });
    again.replay();
    device().default_group().synchronize();
  }
  end_program();
  expect_silence();
}

TEST_F(CheckedCaptures, race_inside_is_found_while_it_is_captured) {
  auto const tensor = written_tensor();
  CapturedStep step(device(), [&] {
    issue_to(0, "first", writes(raw(device(), tensor)));
    issue_to(1, "second", writes(raw(device(), tensor)));
  });
  auto const report = only(CheckKind::race);
  expect_access(
      report.first, "first", "group 0 compute", AccessMode::write, report.first->issued_at.line());
  EXPECT_EQ(report.second->operation, "second");
}

/// Captured work does not run before its graph is replayed, so it conflicts with no work outside
/// the capture.
TEST_F(CheckedCaptures, what_is_captured_races_with_nothing_outside) {
  auto const tensor = written_tensor();
  auto const memory = raw(device(), tensor);
  issue_to(1, "before", writes(memory));
  CapturedStep step(device(), [&] { issue_to(0, "captured", writes(memory)); });
  issue_to(1, "after", writes(memory));
  expect_silence();
}

TEST_F(CheckedCaptures, input_changed_while_a_replay_reads_it_is_reported) {
  auto const input = written_tensor();
  auto const output = written_tensor();
  CapturedStep step(device(), [&] {
    NameScope const name("layer");
    StreamScope const scope(group(0));
    issue("scale", reads(input), writes(output), kNoWork);
  });
  auto const line = std::source_location::current().line() + 1;
  step.replay();
  issue_to(1, "refresh", writes(raw(device(), input)));
  auto const report = only(CheckKind::race);
  EXPECT_EQ(report.first->operation, "replay/layer/scale");
  EXPECT_EQ(report.first->lane, "default group compute");
  EXPECT_LT(report.first->issued_at.line(), line);  // the line at which the operation was captured
  EXPECT_EQ(report.second->operation, "refresh");
  synchronize();
  checker().clear();
  issue_to(1, "refresh in its turn", writes(raw(device(), input)));
  expect_silence();
}

TEST_F(CheckedCaptures, replay_that_does_not_follow_what_it_reads_is_reported) {
  auto const input = written_tensor();
  auto const memory = raw(device(), input);
  auto const output = written_tensor();
  CapturedStep step(device(), [&] {
    for (auto const* const name : {"reads", "reads again"}) {
      StreamScope const scope(group(0));
      issue(name, reads(memory), writes(output), kNoWork);
    }
  });
  issue_to(1, "refresh", writes(memory));
  step.replay();
  auto const report = only(CheckKind::race);
  EXPECT_EQ(report.first->operation, "refresh");
  EXPECT_EQ(report.second->operation, "replay/reads");
  synchronize();
  checker().clear();
  issue_to(1, "refresh", writes(memory));
  device().default_group().compute().wait(group(1).compute().record());
  step.replay();
  expect_silence();
}

TEST_F(CheckedCaptures, host_may_not_write_what_a_replay_uploads) {
  auto const tensor = written_tensor();
  PinnedArray<float, R> staged(device(), kCount);
  staged.host_writes();
  CapturedStep step(device(), [&] {
    StreamScope const scope(group(0));
    copy(tensor, staged);
  });
  staged.host_writes();
  expect_silence();
  step.replay();
  staged.host_writes();
  only(CheckKind::host_race);
  staged.wait();
  staged.host_writes();
  EXPECT_EQ(checker().count(), 1U) << checker().json();
}

TEST_F(CheckedCaptures, races_are_found_on_launch_threads_too) {
  auto const input = written_tensor();
  auto const output = written_tensor();
  StreamPool<R> launchers(device(), {.groups = 2, .launch_threads = LaunchThreads::per_group});
  CapturedStep step(device(), [&] { issue("scale", reads(input), writes(output), kNoWork); });
  for (int i = 0; i < 20; ++i) {
    {
      StreamScope const scope(launchers[0]);
      step.replay();
    }
    {
      StreamScope const scope(launchers[1]);
      issue("refresh", writes(raw(device(), input)), kNoWork);
    }
    launchers.synchronize();
    EXPECT_EQ(checker().count(CheckKind::race), 1U) << checker().json();
    checker().clear();
  }
}

/// A capture that is given up leaves no trace of its operations in the checker.
TEST_F(CheckedCaptures, that_fail_leave_nothing) {
  auto const tensor = written_tensor();
  auto const memory = raw(device(), tensor);
  EXPECT_THROW(CapturedStep(device(),
                            [&] {
                              issue_to(0, "captured", writes(memory));
                              throw std::runtime_error("no step");
                            }),
               std::runtime_error);
  issue_to(1, "after", writes(memory));
  expect_silence();
}

}  // namespace
}  // namespace msstream::testing
