// SPDX-License-Identifier: Apache-2.0
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
  std::shared_ptr<StreamGroup<R>> make_group(int index) {
    return std::make_shared<StreamGroup<R>>(this->context, index);
  }
  [[nodiscard]] StreamGroup<R>* current() const {
    auto const* const scope = StreamScope<R>::current(*this->context);
    return scope == nullptr ? nullptr : scope->group().get();
  }
};
TYPED_TEST_SUITE(ScopeContract, Runtimes);

TYPED_TEST(ScopeContract, the_innermost_scope_counts) {
  using Scope = StreamScope<TypeParam>;
  static_assert(!std::is_copy_constructible_v<Scope> && !std::is_move_constructible_v<Scope>);
  auto const outer = this->make_group(0);
  auto const inner = this->make_group(1);
  EXPECT_EQ(this->current(), nullptr);
  {
    Scope const first(*outer, {.include_grad = true});
    EXPECT_EQ(this->current(), outer.get());
    EXPECT_TRUE(Scope::current(*this->context)->includes_grad());
    {
      Scope const second(*inner);
      EXPECT_EQ(this->current(), inner.get());
      EXPECT_FALSE(Scope::current(*this->context)->includes_grad());
    }
    EXPECT_EQ(this->current(), outer.get());
  }
  EXPECT_EQ(this->current(), nullptr);
}

TYPED_TEST(ScopeContract, a_scope_is_seen_by_its_thread_alone) {
  auto const group = this->make_group(0);
  StreamScope<TypeParam> const scope(*group);
  std::thread([&] { EXPECT_EQ(this->current(), nullptr); }).join();
  EXPECT_EQ(this->current(), group.get());
}

TYPED_TEST(ScopeContract, a_scope_of_another_device_is_passed_over) {
  auto const group = this->make_group(0);
  auto const other_device = this->make_context();
  auto const foreign = std::make_shared<StreamGroup<TypeParam>>(other_device, 0);
  StreamScope<TypeParam> const scope(*group);
  StreamScope<TypeParam> const inner(*foreign);
  EXPECT_EQ(this->current(), group.get());
  EXPECT_EQ(StreamScope<TypeParam>::current(*other_device)->group(), foreign);
}

TYPED_TEST(ScopeContract, scopes_that_are_members_may_go_in_any_order) {
  using Scope = StreamScope<TypeParam>;
  auto const group = this->make_group(0);
  auto const other = this->make_group(1);
  auto first = std::make_unique<Scope>(*group);
  auto second = std::make_unique<Scope>(*other);
  auto third = std::make_unique<Scope>(*group);
  second.reset();
  EXPECT_EQ(this->current(), group.get());
  first.reset();
  EXPECT_EQ(this->current(), group.get()) << "the third";
  third.reset();
  EXPECT_EQ(this->current(), nullptr);
}

TYPED_TEST(ScopeContract, a_scope_keeps_its_group) {
  auto group = this->make_group(0);
  std::weak_ptr<StreamGroup<TypeParam>> const watched = group;
  {
    StreamScope<TypeParam> const scope(*group);
    group.reset();
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

/// Destroys a scope on another thread than the one that opened it, which std::unique_ptr makes
/// possible.
TYPED_TEST(ScopeContract, a_scope_destroyed_on_another_thread_stays_open_until_its_thread_issues) {
  using Scope = StreamScope<TypeParam>;
  auto const outer = this->make_group(0);
  auto const strayed = this->make_group(1);
  auto const theirs = this->make_group(2);
  Scope const first(*outer);
  std::unique_ptr<Scope> second(new Scope(*strayed));  // NOLINT: make_unique() hides the location
  NameScope const name("step");
  ::testing::internal::CaptureStderr();
  std::thread([&] {
    Scope const own(*theirs);
    second.reset();
    EXPECT_EQ(this->current(), theirs.get());
    AccessSet none;
    theirs->submit("of the other thread", StreamKind::compute, none, [](auto) {});
  }).join();
  auto const log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, ::testing::HasSubstr("StreamScope 'group 1', opened by thread "));
  EXPECT_THAT(log, ::testing::HasSubstr("stream_scope_test.cpp:"));
  EXPECT_THAT(log, ::testing::HasSubstr("was destroyed by thread "));
  EXPECT_EQ(this->current(), strayed.get());

  AccessSet none;
  auto const issue = [&] { outer->submit("next", StreamKind::compute, none, [](auto) {}); };
  EXPECT_THROW(issue(), std::logic_error);
  EXPECT_EQ(this->current(), outer.get());
  EXPECT_EQ(NameScope::current(), "step");
  EXPECT_NO_THROW(issue()) << "once";
}

TYPED_TEST(ScopeContract, a_scope_may_outlive_its_thread) {
  auto group = this->make_group(0);
  std::weak_ptr<StreamGroup<TypeParam>> const watched = group;
  std::unique_ptr<StreamScope<TypeParam>> scope;
  std::thread([&] { scope = std::make_unique<StreamScope<TypeParam>>(*group); }).join();
  group.reset();
  scope.reset();
  EXPECT_EQ(this->current(), nullptr);
  EXPECT_TRUE(watched.expired());
}

TYPED_TEST(ScopeContract, a_thread_local_scope_ends_with_its_thread) {
  auto const group = this->make_group(0);
  std::thread([&] {
    thread_local std::optional<StreamScope<TypeParam>> scope;
    scope.emplace(*group);
    EXPECT_EQ(this->current(), group.get());
  }).join();
  EXPECT_EQ(group.use_count(), 1);
}

}  // namespace
}  // namespace msstream::testing
