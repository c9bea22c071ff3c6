// SPDX-License-Identifier: Apache-2.0
#include "stream/stream_scope.hpp"

#include "stream/stream_fixture.hpp"

#include <msstream/stream/stream_scope.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <type_traits>

namespace msstream::testing {
namespace {

template <class R>
class ScopeContract : public StreamTest<R> {
 protected:
  StreamGroup<R> make_group(int index) {
    return StreamGroup<R>(std::make_shared<detail::StreamGroup>(this->context, index));
  }
  [[nodiscard]] detail::OpenScope const* scope() const {
    return detail::OpenScope::current(*this->context);
  }
  /// Returns the group of the calling thread's innermost scope, if there is one.
  [[nodiscard]] std::optional<StreamGroup<R>> current() const {
    return scope() == nullptr ? std::nullopt : std::optional(StreamGroup<R>(scope()->group()));
  }
};
TYPED_TEST_SUITE(ScopeContract, Runtimes);

TYPED_TEST(ScopeContract, the_innermost_scope_counts) {
  using Scope = StreamScope<TypeParam>;
  static_assert(!std::is_copy_constructible_v<Scope> && !std::is_move_constructible_v<Scope>);
  auto const outer = this->make_group(0);
  auto const inner = this->make_group(1);
  EXPECT_EQ(this->current(), std::nullopt);
  {
    Scope const first(outer, {.include_grad = true});
    EXPECT_EQ(this->current(), outer);
    EXPECT_TRUE(this->scope()->includes_grad());
    {
      Scope const second(inner);
      EXPECT_EQ(this->current(), inner);
      EXPECT_FALSE(this->scope()->includes_grad());
    }
    EXPECT_EQ(this->current(), outer);
  }
  EXPECT_EQ(this->current(), std::nullopt);
}

TYPED_TEST(ScopeContract, a_scope_is_seen_by_its_thread_alone) {
  auto const group = this->make_group(0);
  StreamScope<TypeParam> const scope(group);
  std::thread([&] { EXPECT_EQ(this->current(), std::nullopt); }).join();
  EXPECT_EQ(this->current(), group);
}

TYPED_TEST(ScopeContract, a_scope_of_another_device_is_passed_over) {
  auto const group = this->make_group(0);
  auto const other_device = this->make_context();
  StreamGroup<TypeParam> const foreign(std::make_shared<detail::StreamGroup>(other_device, 0));
  StreamScope<TypeParam> const scope(group);
  StreamScope<TypeParam> const inner(foreign);
  EXPECT_EQ(this->current(), group);
  EXPECT_EQ(detail::OpenScope::current(*other_device)->group(), foreign.share_engine());
}

TYPED_TEST(ScopeContract, scopes_that_are_members_may_go_in_any_order) {
  using Scope = StreamScope<TypeParam>;
  auto const group = this->make_group(0);
  auto const other = this->make_group(1);
  auto first = std::make_unique<Scope>(group);
  auto second = std::make_unique<Scope>(other);
  auto third = std::make_unique<Scope>(group);
  second.reset();
  EXPECT_EQ(this->current(), group);
  first.reset();
  EXPECT_EQ(this->current(), group) << "the third";
  third.reset();
  EXPECT_EQ(this->current(), std::nullopt);
}

TYPED_TEST(ScopeContract, a_scope_keeps_its_group) {
  std::optional group(this->make_group(0));
  std::weak_ptr<detail::StreamGroup> const watched = group->share_engine();
  {
    StreamScope<TypeParam> const scope(*group);
    group.reset();
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

/// Destroys a scope on another thread than the one that opened it. A std::unique_ptr makes such a
/// mistake possible.
TYPED_TEST(ScopeContract, a_scope_destroyed_on_another_thread_stays_open_until_its_thread_issues) {
  using Scope = StreamScope<TypeParam>;
  auto const outer = this->make_group(0);
  auto const strayed = this->make_group(1);
  auto const theirs = this->make_group(2);
  Scope const first(outer);
  std::unique_ptr<Scope> second(new Scope(strayed));  // NOLINT: make_unique() hides the location
  NameScope const name("step");
  ::testing::internal::CaptureStderr();
  std::thread([&] {
    Scope const own(theirs);
    second.reset();
    EXPECT_EQ(this->current(), theirs);
    detail::AccessSet none;
    this->submit(theirs.engine(), "of the other thread", none, [](auto) {});
  }).join();
  auto const log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, ::testing::HasSubstr("StreamScope 'group 1', opened by thread "));
  EXPECT_THAT(log, ::testing::HasSubstr("stream_scope_test.cpp:"));
  EXPECT_THAT(log, ::testing::HasSubstr("was destroyed by thread "));
  EXPECT_EQ(this->current(), strayed);

  detail::AccessSet none;
  auto const issue = [&] { this->submit(outer.engine(), "next", none, [](auto) {}); };
  EXPECT_THROW(issue(), std::logic_error);
  EXPECT_EQ(this->current(), outer);
  EXPECT_EQ(NameScope::current(), "step");
  EXPECT_NO_THROW(issue()) << "once";
}

TYPED_TEST(ScopeContract, a_scope_may_outlive_its_thread) {
  std::optional group(this->make_group(0));
  std::weak_ptr<detail::StreamGroup> const watched = group->share_engine();
  std::unique_ptr<StreamScope<TypeParam>> scope;
  std::thread([&] { scope = std::make_unique<StreamScope<TypeParam>>(*group); }).join();
  group.reset();
  scope.reset();
  EXPECT_EQ(this->current(), std::nullopt);
  EXPECT_TRUE(watched.expired());
}

TYPED_TEST(ScopeContract, a_thread_local_scope_ends_with_its_thread) {
  auto const group = this->make_group(0);
  std::thread([&] {
    thread_local std::optional<StreamScope<TypeParam>> scope;
    scope.emplace(group);
    EXPECT_EQ(this->current(), group);
  }).join();
  EXPECT_EQ(group.share_engine().use_count(), 1);
}

}  // namespace
}  // namespace msstream::testing
