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

TYPED_TEST(EveryCallTest, opening_may_fail) {
  EveryCall(opening<TypeParam>(false)).run();
  EveryCall(opening<TypeParam>(true)).run();
}
TYPED_TEST(EveryCallTest, crossing_groups_may_fail) {
  EveryCall(crossing_groups<TypeParam>(LaunchThreads::none)).run();
}
TYPED_TEST(EveryCallTest, crossing_groups_on_shared_launch_threads_may_fail) {
  EveryCall(crossing_groups<TypeParam>(LaunchThreads::shared)).run();
}
TYPED_TEST(EveryCallTest, crossing_groups_on_private_launch_threads_may_fail) {
  EveryCall(crossing_groups<TypeParam>(LaunchThreads::per_group)).run();
}
TYPED_TEST(EveryCallTest, memory_under_a_limit_may_fail) {
  EveryCall(memory_under_a_limit<TypeParam>()).run();
}
TYPED_TEST(EveryCallTest, pinned_copies_may_fail) {
  EveryCall(pinned_copies<TypeParam>()).run();
}
TYPED_TEST(EveryCallTest, ordering_by_hand_may_fail) {
  EveryCall(ordering_by_hand<TypeParam>()).run();
}
TYPED_TEST(EveryCallTest, spans_may_fail) {
  EveryCall(spans<TypeParam>()).run();
}
TYPED_TEST(EveryCallTest, frozen_lookups_may_fail) {
  EveryCall(frozen_lookups<TypeParam>()).run();
}
TYPED_TEST(EveryCallTest, captured_steps_may_fail) {
  EveryCall(captured_step<TypeParam>()).run();
}
TYPED_TEST(EveryCallTest, training_may_fail) {
  EveryCall(training<TypeParam>(LaunchThreads::none)).run();
}
TYPED_TEST(EveryCallTest, training_on_shared_launch_threads_may_fail) {
  EveryCall(training<TypeParam>(LaunchThreads::shared)).run();
}
TYPED_TEST(EveryCallTest, checkpoints_may_fail) {
  EveryCall(checkpoints<TypeParam>(1 << 20)).run();
}
TYPED_TEST(EveryCallTest, checkpoints_copied_to_the_host_directly_may_fail) {
  EveryCall(checkpoints<TypeParam>(0)).run();
}

}  // namespace
}  // namespace msstream::testing
