// SPDX-License-Identifier: Apache-2.0
#include "faulty/scenarios.hpp"
#include "faulty/training.hpp"
#include "memory/runtimes.hpp"

namespace msstream::testing {
namespace {

#if MSSTREAM_CUDA
static_assert(ObservingRuntime<Faulty<Cuda>>);
#endif
static_assert(ObservingRuntime<Faulty<Host>>);

template <class Inner>
class EveryCallTest : public RuntimeTest<Inner> {};
TYPED_TEST_SUITE(EveryCallTest, Runtimes, RuntimeNames);

TYPED_TEST(EveryCallTest, OpeningMayFail) {
  EveryCall(opening<TypeParam>(false)).run();
  EveryCall(opening<TypeParam>(true)).run();
}
TYPED_TEST(EveryCallTest, CrossingGroupsMayFail) {
  EveryCall(crossing_groups<TypeParam>(LaunchThreads::none)).run();
}
TYPED_TEST(EveryCallTest, CrossingGroupsOnSharedLaunchThreadsMayFail) {
  EveryCall(crossing_groups<TypeParam>(LaunchThreads::shared)).run();
}
TYPED_TEST(EveryCallTest, CrossingGroupsOnPrivateLaunchThreadsMayFail) {
  EveryCall(crossing_groups<TypeParam>(LaunchThreads::per_group)).run();
}
TYPED_TEST(EveryCallTest, MemoryUnderALimitMayFail) {
  EveryCall(memory_under_a_limit<TypeParam>()).run();
}
TYPED_TEST(EveryCallTest, PinnedCopiesMayFail) {
  EveryCall(pinned_copies<TypeParam>()).run();
}
TYPED_TEST(EveryCallTest, OrderingByHandMayFail) {
  EveryCall(ordering_by_hand<TypeParam>()).run();
}
TYPED_TEST(EveryCallTest, SpansMayFail) {
  EveryCall(spans<TypeParam>()).run();
}
TYPED_TEST(EveryCallTest, FrozenLookupsMayFail) {
  EveryCall(frozen_lookups<TypeParam>()).run();
}
TYPED_TEST(EveryCallTest, CapturedStepsMayFail) {
  EveryCall(captured_step<TypeParam>()).run();
}
TYPED_TEST(EveryCallTest, TrainingMayFail) {
  EveryCall(training<TypeParam>(LaunchThreads::none)).run();
}
TYPED_TEST(EveryCallTest, TrainingOnSharedLaunchThreadsMayFail) {
  EveryCall(training<TypeParam>(LaunchThreads::shared)).run();
}

}  // namespace
}  // namespace msstream::testing
