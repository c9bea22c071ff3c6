// SPDX-License-Identifier: Apache-2.0
#include "stream/stream_fixture.hpp"

#include <msstream/stream/stream_scope.hpp>

#include <gtest/gtest.h>

#include <memory>
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

TYPED_TEST(ScopeContract, TheInnermostScopeCounts) {
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

TYPED_TEST(ScopeContract, AScopeIsSeenByItsThreadAlone) {
  auto const group = this->make_group(0);
  StreamScope<TypeParam> const scope(*group);
  std::thread([&] { EXPECT_EQ(this->current(), nullptr); }).join();
  EXPECT_EQ(this->current(), group.get());
}

TYPED_TEST(ScopeContract, AScopeOfAnotherDeviceIsPassedOver) {
  auto const group = this->make_group(0);
  auto const other_device = this->make_context();
  auto const foreign = std::make_shared<StreamGroup<TypeParam>>(other_device, 0);
  StreamScope<TypeParam> const scope(*group);
  StreamScope<TypeParam> const inner(*foreign);
  EXPECT_EQ(this->current(), group.get());
  EXPECT_EQ(StreamScope<TypeParam>::current(*other_device)->group(), foreign);
}

TYPED_TEST(ScopeContract, ScopesThatAreMembersMayGoInAnyOrder) {
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

TYPED_TEST(ScopeContract, AScopeKeepsItsGroup) {
  auto group = this->make_group(0);
  std::weak_ptr<StreamGroup<TypeParam>> const watched = group;
  {
    StreamScope<TypeParam> const scope(*group);
    group.reset();
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace msstream::testing
