// SPDX-License-Identifier: Apache-2.0
// Tests of the checks of work under a TensorHolder, which may access the tensor at any time while
// the holder holds it.
#include "trust/checked_fixture.hpp"

#include <msstream/stream/stream_scope.hpp>

#include <string>

namespace msstream::testing {
namespace {

template <class Inner>
class CheckedHolders : public CheckedProgram<Inner> {
 protected:
  using R = Checked<Inner>;
  void copy_past_issue(Tensor<float, R> const& to,
                       Tensor<float, R> const& from,
                       Stream<R> const& on) {
    this->runtime().copy(to.data(), from.data(), this->kBytes, CopyKind::d2d, on.native());
  }
};
TYPED_TEST_SUITE(CheckedHolders, CheckedRuntimes, CheckedRuntimeNames);

/// The report describes the conflict with the one of the holder's two streams that the writer does
/// not follow.
TYPED_TEST(CheckedHolders, on_two_streams_wait_for_the_right_one) {
  auto const tensor = this->written_tensor();
  TensorHolder holder(this->group(0).compute(), this->group(1).compute());
  holder.hold(tensor);
  {
    StreamScope const scope(this->group(0));
    issue("write", writes(tensor), kNoWork);
  }
  auto const report = this->only(CheckKind::race);
  EXPECT_EQ(report.first->lane, "group 1 compute");
  EXPECT_EQ(report.second->lane, "group 0 compute");
  EXPECT_EQ(report.missing,
            "the TensorHolder on group 1 compute must be released before 'write' on group 0 "
            "compute");
}

TYPED_TEST(CheckedHolders, streams_have_names) {
  using R = typename TestFixture::R;
  auto const tensor = this->written_tensor();
  Stream<R> own(this->device());
  TensorHolder holder(own);
  holder.hold(tensor);
  {
    StreamScope const scope(this->group(0));
    issue("write", writes(tensor), kNoWork);
  }
  auto const report = this->only(CheckKind::race);
  EXPECT_EQ(report.first->lane.rfind("stream ", 0), 0U) << report.first->lane;
  EXPECT_EQ(report.first->lane.find("0x"), std::string::npos) << report.first->lane;
}

/// Reports contain the names of a pool's streams even if no operation was ever issued to the pool.
TYPED_TEST(CheckedHolders, pools_that_have_not_issued_yet_have_names) {
  if (auto const why = this->why_it_may_not_race(); !why.empty()) {
    GTEST_SKIP() << why;
  }
  auto const tensor = this->written_tensor();
  for (int i = 0; i < 2; ++i) {
    this->runtime().fill(tensor.data(), 1, this->kBytes, this->group(i).compute().native());
  }
  auto const report = this->only(CheckKind::race);
  EXPECT_EQ(report.first->lane, "group 0 compute");
  EXPECT_EQ(report.second->lane, "group 1 compute");
  this->synchronize();
}

TYPED_TEST(CheckedHolders, two_at_once_that_both_may_write_are_reported) {
  using R = typename TestFixture::R;
  auto const tensor = this->written_tensor();
  Stream<R> one(this->device());
  Stream<R> two(this->device());
  TensorHolder first(one);
  first.hold(tensor);
  TensorHolder second(two);
  second.hold(tensor);
  this->only(CheckKind::race);
}

TYPED_TEST(CheckedHolders, one_after_the_other_or_ordered_by_hand_are_silent) {
  using R = typename TestFixture::R;
  auto const tensor = this->written_tensor();
  Stream<R> one(this->device());
  Stream<R> two(this->device());
  TensorHolder first(one);
  first.hold(tensor);
  first.release();
  TensorHolder second(two);
  second.hold(tensor);
  one.wait(two.record());
  TensorHolder third(one);
  third.hold(tensor);
  this->expect_silence();
}

TYPED_TEST(CheckedHolders, what_reads_may_be_held_beside_others_that_read) {
  using R = typename TestFixture::R;
  auto const tensor = this->written_tensor();
  Stream<R> one(this->device());
  {
    TensorHolder holder(one);
    holder.hold(tensor, AccessMode::read);
    StreamScope const scope(this->group(0));
    issue("read", reads(tensor), kNoWork);
    this->expect_silence();
    issue("write", writes(tensor), kNoWork);
  }
  this->only(CheckKind::race);
  this->checker().clear();
  StreamScope const scope(this->group(1));
  issue("write thereafter", writes(tensor), kNoWork);
  this->expect_silence();
}

TYPED_TEST(CheckedHolders, copy_past_issue_beside_is_reported) {
  using R = typename TestFixture::R;
  if (auto const why = this->why_it_may_not_race(); !why.empty()) {
    GTEST_SKIP() << why;
  }
  auto const tensor = this->written_tensor();
  auto const other = this->written_tensor();
  Stream<R> one(this->device());
  {
    TensorHolder holder(one);
    holder.hold(tensor);
    this->copy_past_issue(tensor, other, this->group(0).compute());
  }
  auto const report = this->only(CheckKind::race);
  EXPECT_EQ(report.first->operation, "work under a TensorHolder");
  EXPECT_EQ(report.second->operation, "copy d2d");
  EXPECT_EQ(report.second->lane, "group 0 compute");
  this->synchronize();
  one.synchronize();
}

TYPED_TEST(CheckedHolders, copy_past_issue_in_its_turn_is_silent) {
  using R = typename TestFixture::R;
  auto const tensor = this->written_tensor();
  auto const other = this->written_tensor();
  auto const beside = this->group(0).compute();
  Stream<R> one(this->device());
  {
    TensorHolder holder(one);
    holder.hold(tensor);
    this->copy_past_issue(tensor, other, one);  // allowed, as the holder covers this stream
    beside.wait(one.record());
    this->copy_past_issue(tensor, other, beside);
    one.wait(beside.record());
  }
  this->expect_silence();
  this->synchronize();
  one.synchronize();
}

}  // namespace
}  // namespace msstream::testing
