// SPDX-License-Identifier: Apache-2.0
// Tests of races between operations that declare their memory in different ways. Each race is also
// tested with the missing order added, and is then not reported.
#include "trust/checked_fixture.hpp"

#include <msstream/stream/stream_scope.hpp>
#include <msstream/trace/name_scope.hpp>

#include <cstring>
#include <string_view>

namespace msstream::testing {
namespace {

template <class Inner>
class CheckedRace : public CheckedProgram<Inner> {
 protected:
  using R = Checked<Inner>;

  void use(char const* name,
           AccessMode mode,
           detail::RawMemory<R> const& memory,
           std::source_location at) {
    if (mode == AccessMode::read) {
      issue(name, reads(memory), kNoWork, {}, at);
    } else {
      issue(name, writes(memory), kNoWork, {}, at);
    }
  }
};
TYPED_TEST_SUITE(CheckedRace, CheckedRuntimes, CheckedRuntimeNames);

struct Modes {
  AccessMode first;
  AccessMode second;
  bool conflict;
};
constexpr Modes kModes[] = {{AccessMode::write, AccessMode::write, true},
                            {AccessMode::read, AccessMode::write, true},
                            {AccessMode::write, AccessMode::read, true},
                            {AccessMode::read, AccessMode::read, false}};

TYPED_TEST(CheckedRace, of_two_accesses_names_both_and_the_missing_wait) {
  for (auto const modes : kModes) {
    this->checker().clear();
    auto const tensor = this->written_tensor();
    auto const memory = raw(this->device(), tensor);
    std::source_location first_scope;
    std::source_location second_scope;
    std::source_location first_at;
    std::source_location second_at;
    {
      first_scope = std::source_location::current();
      StreamScope const scope(this->group(0), {}, first_scope);
      NameScope const name("layer");
      first_at = std::source_location::current();
      this->use("first", modes.first, memory, first_at);
    }
    {
      second_scope = std::source_location::current();
      StreamScope const scope(this->group(1), {}, second_scope);
      second_at = std::source_location::current();
      this->use("second", modes.second, memory, second_at);
    }
    if (!modes.conflict) {
      this->expect_silence();
      continue;
    }
    auto const report = this->only(CheckKind::race);
    expect_access(report.first, "layer/first", "group 0 compute", modes.first, first_at.line());
    expect_access(report.second, "second", "group 1 compute", modes.second, second_at.line());
    EXPECT_EQ(std::string_view(report.first->issued_at.file_name()), __FILE__);
    EXPECT_EQ(report.first->scope_opened_at.line(), first_scope.line());
    EXPECT_EQ(report.second->scope_opened_at.line(), second_scope.line());
    expect_range(report.first, tensor.data(), this->kBytes);
    expect_range(report.second, tensor.data(), this->kBytes);
    EXPECT_EQ(report.missing,
              "group 1 compute must wait for 'layer/first' on group 0 compute before 'second'");
    this->synchronize();
  }
}

TYPED_TEST(CheckedRace, is_none_where_an_event_orders) {
  for (auto const modes : kModes) {
    auto const tensor = this->written_tensor();
    auto const memory = raw(this->device(), tensor);
    {
      StreamScope const scope(this->group(0));
      this->use("first", modes.first, memory, std::source_location::current());
    }
    this->order(0, 1);
    {
      StreamScope const scope(this->group(1));
      this->use("second", modes.second, memory, std::source_location::current());
    }
    this->synchronize();
  }
  this->expect_silence();
}

TYPED_TEST(CheckedRace, is_none_among_tensors_whatever_the_groups) {
  auto const tensor = this->written_tensor();
  for (int i = 0; i < 8; ++i) {
    StreamScope const scope(this->group(i % 2));
    issue("write", writes(tensor), kNoWork);
    issue("read", reads(tensor.rows(0, 8)), kNoWork);
  }
  this->expect_silence();
}

TYPED_TEST(CheckedRace, is_none_outside_all_scopes_after_the_host_has_waited) {
  auto const tensor = this->written_tensor();
  auto const memory = raw(this->device(), tensor);
  {
    StreamScope const scope(this->group(0));
    issue("first", writes(memory), kNoWork);
  }
  this->group(0).compute().synchronize();
  issue("second", writes(memory), kNoWork);
  this->expect_silence();
}

TYPED_TEST(CheckedRace, outside_all_scopes_has_no_scope_to_tell) {
  auto const tensor = this->written_tensor();
  auto const memory = raw(this->device(), tensor);
  issue("first", writes(memory), kNoWork);
  {
    StreamScope const scope(this->group(0));
    issue("second", writes(memory), kNoWork);
  }
  auto const report = this->only(CheckKind::race);
  EXPECT_EQ(report.first->scope_opened_at.line(), 0U);
  EXPECT_EQ(report.first->lane, "default group compute");
}

TYPED_TEST(CheckedRace, of_overlapping_views_names_the_bytes_in_both) {
  auto const tensor = this->written_tensor();
  {
    StreamScope const scope(this->group(0));
    issue("front", writes(raw(this->device(), tensor.rows(0, 40))), kNoWork);
  }
  {
    StreamScope const scope(this->group(1));
    issue("back", writes(raw(this->device(), tensor.rows(24, 64))), kNoWork);
  }
  auto const report = this->only(CheckKind::race);
  expect_range(report.first, tensor.data() + 24, 16 * sizeof(float));
  expect_range(report.second, tensor.data() + 24, 16 * sizeof(float));
}

TYPED_TEST(CheckedRace, is_none_among_views_beside_each_other) {
  auto const tensor = this->written_tensor();
  for (int i = 0; i < 2; ++i) {
    StreamScope const scope(this->group(i));
    issue("half", writes(raw(this->device(), tensor.rows(32 * i, 32 * i + 32))), kNoWork);
  }
  this->expect_silence();
}

TYPED_TEST(CheckedRace, is_none_with_an_empty_view) {
  auto const tensor = this->written_tensor();
  {
    StreamScope const scope(this->group(0));
    issue("all", writes(raw(this->device(), tensor)), kNoWork);
  }
  StreamScope const scope(this->group(1));
  issue("none of it", writes(raw(this->device(), tensor.rows(32, 32))), kNoWork);
  this->expect_silence();
}

TYPED_TEST(CheckedRace, of_memory_that_is_half_a_tensor_and_half_behind_it) {
  auto const front = this->written_tensor();
  {
    StreamScope const scope(this->group(0));
    issue("tensor", writes(front), kNoWork);
  }
  StreamScope const scope(this->group(1));
  auto const half = raw_memory(this->device(), front.data() + 32, 64);
  issue("behind", reads(half), kNoWork);
  // The memory behind the tensor belongs to the allocator, because the tensor's block ends with the
  // tensor.
  auto const reports = this->checker().reports();
  ASSERT_EQ(reports.size(), 2U) << this->checker().json();
  EXPECT_EQ(reports[0].kind, CheckKind::use_after_free);
  EXPECT_EQ(reports[1].kind, CheckKind::race);
  expect_range(reports[1].first, front.data() + 32, 32 * sizeof(float));
}

TYPED_TEST(CheckedRace, of_copies_and_fills_given_to_the_runtime_itself) {
  if (auto const why = this->why_it_may_not_race(); !why.empty()) {
    GTEST_SKIP() << why;
  }
  auto const tensor = this->written_tensor();
  auto const other = this->written_tensor();
  auto& runtime = this->runtime();
  auto const first = this->group(0).compute().native();
  auto const second = this->group(1).compute().native();
  runtime.fill(tensor.data(), 1, this->kBytes, first);
  runtime.copy(other.data(), tensor.data(), this->kBytes, CopyKind::d2d, second);
  auto const report = this->only(CheckKind::race);
  EXPECT_EQ(report.first->operation, "fill");
  EXPECT_EQ(report.second->operation, "copy d2d");
  EXPECT_EQ(report.second->mode, AccessMode::read);
  expect_range(report.second, tensor.data(), this->kBytes);
  this->synchronize();
}

TYPED_TEST(CheckedRace, is_none_of_copies_that_follow_each_other) {
  auto const tensor = this->written_tensor();
  auto const other = this->written_tensor();
  auto& runtime = this->runtime();
  runtime.fill(tensor.data(), 1, this->kBytes, this->group(0).compute().native());
  this->order(0, 1);
  runtime.copy(
      other.data(), tensor.data(), this->kBytes, CopyKind::d2d, this->group(1).compute().native());
  this->synchronize();
  this->expect_silence();
}

/// A copy made inside an operation counts as part of the operation, whether or not the operation
/// declares the memory.
TYPED_TEST(CheckedRace, of_a_copy_inside_an_operation_is_the_operations) {
  auto const tensor = this->written_tensor();
  auto const named = this->written_tensor();
  {
    StreamScope const scope(this->group(0));
    issue("writes", writes(tensor), kNoWork);
  }
  StreamScope const scope(this->group(1));
  auto* const runtime = &this->runtime();
  auto const native = this->group(1).compute().native();
  auto const line = std::source_location::current().line() + 1;
  issue("copies", writes(named), [&](auto) {
    runtime->copy(named.data(), tensor.data(), this->kBytes, CopyKind::d2d, native);
  });
  auto const reports = this->checker().reports();
  ASSERT_EQ(reports.size(), 2U) << this->checker().json();
  for (auto const& report : reports) {
    expect_access(report.second, "copies", "group 1 compute", AccessMode::read, line);
  }
  EXPECT_EQ(reports[0].kind, CheckKind::undeclared_use);
  EXPECT_EQ(reports[1].kind, CheckKind::race);
  this->synchronize();
}

/// A stream may use the held tensor between hold() and release() of a TensorHolder.
TYPED_TEST(CheckedRace, of_a_write_while_a_holder_holds) {
  auto const tensor = this->written_tensor();
  Stream<typename TestFixture::R> stream(this->device());
  auto const line = std::source_location::current().line() + 2;
  TensorHolder holder(stream);
  holder.hold(tensor);
  StreamScope const scope(this->group(0));
  issue("write", writes(tensor), kNoWork);
  auto const report = this->only(CheckKind::race);
  ASSERT_TRUE(report.first.has_value());
  EXPECT_EQ(report.first->operation, "work under a TensorHolder");
  EXPECT_EQ(report.first->issued_at.line(), line);
  EXPECT_EQ(report.second->operation, "write");
}

TYPED_TEST(CheckedRace, is_none_of_what_reads_while_holders_hold_or_writes_thereafter) {
  auto const tensor = this->written_tensor();
  Stream<typename TestFixture::R> one(this->device());
  Stream<typename TestFixture::R> two(this->device());
  {
    TensorHolder first(one);
    first.hold(tensor, AccessMode::read);
    TensorHolder second(two);
    second.hold(tensor, AccessMode::read);
    StreamScope const scope(this->group(0));
    issue("read", reads(tensor), kNoWork);
  }
  StreamScope const scope(this->group(1));
  issue("write", writes(tensor), kNoWork);
  this->expect_silence();
}

TYPED_TEST(CheckedRace, of_the_next_owner_with_work_that_nobody_held) {
  if (auto const why = this->why_it_may_not_race(); !why.empty()) {
    GTEST_SKIP() << why;
  }
  std::optional<Tensor<float, typename TestFixture::R>> tensor = this->written_tensor();
  Stream<typename TestFixture::R> stream(this->device());
  this->runtime().fill(tensor->data(), 1, this->kBytes, stream.native());
  tensor.reset();
  auto const next = zeros<float, typename TestFixture::R>(this->device(), {this->kCount});
  auto const report = this->only(CheckKind::race);
  EXPECT_EQ(report.first->operation, "fill");
  EXPECT_NE(report.message.find("given back and out again"), std::string::npos) << report.message;
  stream.synchronize();
  this->synchronize();
}

}  // namespace
}  // namespace msstream::testing
