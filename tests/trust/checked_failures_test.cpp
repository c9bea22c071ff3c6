// SPDX-License-Identifier: Apache-2.0
// Tests that a checking runtime does not count failed work, or work that was never launched, as
// having written its memory.
#include "stream/stream.hpp"
#include "trust/checked_fixture.hpp"

#include <msstream/runtime/faulty.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <memory>
#include <stdexcept>

namespace msstream::testing {
namespace {

constexpr auto kRefusal = [](auto) { throw std::runtime_error("not launched"); };

template <class Inner>
class CheckedFailures : public CheckedProgram<Inner> {};
TYPED_TEST_SUITE(CheckedFailures, CheckedRuntimes, CheckedRuntimeNames);

TYPED_TEST(CheckedFailures, read_of_what_only_an_operation_that_failed_was_to_write) {
  Tensor<float, typename TestFixture::R> const tensor(this->device(), {this->kCount});
  EXPECT_THROW(issue("writer", writes(tensor), kRefusal), std::runtime_error);
  this->expect_silence();
  issue("reader", reads(tensor), kNoWork);
  this->only(CheckKind::unwritten_read);
}

TYPED_TEST(CheckedFailures, read_after_a_write_that_failed_but_was_not_the_first_is_silent) {
  auto const tensor = this->written_tensor();
  EXPECT_THROW(issue("writer", writes(tensor), kRefusal), std::runtime_error);
  issue("reader", reads(tensor), kNoWork);
  this->expect_silence();
}

TYPED_TEST(CheckedFailures, read_past_issue_of_what_only_an_operation_that_failed_was_to_write) {
  Tensor<float, typename TestFixture::R> const from(this->device(), {this->kCount});
  auto const to = this->written_tensor();
  {
    StreamScope const scope(this->group(0));
    EXPECT_THROW(issue("writer", writes(from), kRefusal), std::runtime_error);
  }
  auto const native = this->group(0).compute().native();
  this->runtime().copy(to.data(), from.data(), this->kBytes, CopyKind::d2d, native);
  this->only(CheckKind::unwritten_read);
  this->group(0).compute().synchronize();
}

TYPED_TEST(CheckedFailures, read_of_what_only_operations_that_failed_were_to_write_part_by_part) {
  Tensor<float, typename TestFixture::R> const tensor(this->device(), {this->kCount});
  EXPECT_THROW(issue("front", writes(tensor.rows(0, 32)), kRefusal), std::runtime_error);
  EXPECT_THROW(issue("all", writes(tensor), kRefusal), std::runtime_error);
  issue("back", writes(tensor.rows(32, 64)), kNoWork);
  issue("front reader", reads(tensor.rows(0, 32)), kNoWork);
  this->only(CheckKind::unwritten_read);
  issue("back reader", reads(tensor.rows(32, 64)), kNoWork);
  this->only(CheckKind::unwritten_read);
}

TYPED_TEST(CheckedFailures, read_of_what_an_operation_that_the_checker_refused_was_to_write) {
  auto const device = checked_device<TypeParam>({.mode = CheckMode::throw_error});
  StreamPool pool(device, {.groups = 1, .launch_threads = LaunchThreads::none});
  Tensor<float, Checked<TypeParam>> const unwritten(device, {this->kCount});
  Tensor<float, Checked<TypeParam>> const output(device, {this->kCount});
  EXPECT_THROW(issue("writer", writes(unwritten), kRefusal), std::runtime_error);
  EXPECT_THROW(issue("refused", reads(unwritten), writes(output), kNoWork), RaceError);
  EXPECT_THROW(issue("reader", reads(output), kNoWork), RaceError);
}

/// A failure of the work itself is not a finding. The failed work counts as complete.
TEST(CheckedFailuresOnHost, of_work_are_no_findings) {
  using R = Checked<Host>;
  std::shared_ptr<Checker> checker;
  {
    auto const device = checked_device<Host>({.mode = CheckMode::count});
    checker = device.runtime().checker();
    Tensor<float, R> const tensor(device, {16});
    issue("fails", writes(tensor), [](HostStream stream) {
      stream.run([] { throw std::runtime_error("out of luck"); });
    });
    EXPECT_THROW(static_cast<void>(to_host(tensor)), std::runtime_error);
  }
  checker->report_leaks();
  EXPECT_EQ(checker->count(), 0U) << checker->json();
}

/// A fixture with a launch thread, on which operations fail without the knowledge of any caller.
class CheckedFailuresOnLaunchThreads : public CheckedProgram<Host> {
 protected:
  void fail_on_a_launch_thread(Tensor<float, R> const& output) {
    auto const position = [&] {
      StreamScope const scope(launchers_[0]);
      return issue("fails", writes(output), kRefusal);
    }();
    launchers_[0].compute().engine().slot().await_launched(position.number);
  }
  [[nodiscard]] Tensor<float, R> unwritten_tensor() const { return {device(), {kCount}}; }

 private:
  StreamPool<R> launchers_{device(), {.groups = 1, .launch_threads = LaunchThreads::per_group}};
};

TEST_F(CheckedFailuresOnLaunchThreads,
       read_of_what_was_to_be_written_by_what_threw_the_failure_instead) {
  auto const output = unwritten_tensor();
  fail_on_a_launch_thread(unwritten_tensor());
  EXPECT_THROW(issue("throws it", writes(output), kNoWork), std::runtime_error);
  expect_silence();
  issue("reader", reads(output), kNoWork);
  only(CheckKind::unwritten_read);
}

TEST_F(CheckedFailuresOnLaunchThreads, reader_that_throws_the_failure_is_no_finding) {
  auto const output = unwritten_tensor();
  fail_on_a_launch_thread(output);
  EXPECT_THROW(issue("reader", reads(output), kNoWork), std::runtime_error);
  expect_silence();
}

TEST(CheckedFailuresOnHost, a_copy_that_failed_is_over) {
  using R = Checked<Faulty<Host>>;
  auto const plan = std::make_shared<FaultPlan>();
  auto const device =
      checked_device<Faulty<Host>>({.mode = CheckMode::count}, Faulty<Host>::Options{.plan = plan});
  auto& runtime = device.runtime();
  auto const tensor = zeros<float>(device, {16});
  PinnedArray<float, R> staged(device, 16);
  auto const stream = device.default_group().compute();
  stream.synchronize();
  plan->fail(RuntimeCall::copy, 1, Fault::launch_failure);
  EXPECT_THROW(
      runtime.copy(
          tensor.data(), staged.const_elements().data(), 64, CopyKind::h2d, stream.native()),
      CudaError);
  stream.synchronize();
  staged.host_writes();
  EXPECT_EQ(runtime.checker()->count(), 0U) << runtime.checker()->json();
}

}  // namespace
}  // namespace msstream::testing
