// SPDX-License-Identifier: Apache-2.0
// Tests typed objects that are made from untyped ones: an object of another runtime, or with other
// elements, is refused.
#include "base/message_of.hpp"
#include "memory/device/device_state.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/runtime/checked.hpp>
#include <msstream/runtime/host.hpp>
#include <msstream/runtime/sim.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/tensor/copy.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;

/// A fixture with a device of the runtime Host and a device of another runtime.
template <class Other>
class OtherTypes : public ::testing::Test {
 protected:
  Device<Host> const host;
  Device<Other> const other;
};
using OtherRuntimes = ::testing::Types<Sim, Checked<Host>>;
TYPED_TEST_SUITE(OtherTypes, OtherRuntimes);

TYPED_TEST(OtherTypes, a_device_is_not_made_from_the_state_of_another_runtime) {
  EXPECT_NO_THROW(Device<TypeParam>(this->other.state()));
  EXPECT_THROW(Device<Host>(this->other.state()), std::invalid_argument);
  EXPECT_THROW(Device<TypeParam>(this->host.state()), std::invalid_argument);
}

TYPED_TEST(OtherTypes, a_tensor_is_not_made_on_the_device_of_another_runtime) {
  Tensor<float, TypeParam> const tensor(this->other.state(), {4});
  EXPECT_THROW((Tensor<float, Host>(this->other.state(), {4})), std::invalid_argument);
  EXPECT_THROW((Tensor<float, Host>(tensor.device(), {4})), std::invalid_argument);
}

TYPED_TEST(OtherTypes, a_tensor_is_not_made_over_a_block_of_another_runtime) {
  Tensor<float, TypeParam> const tensor(this->other, {4});
  EXPECT_NO_THROW((Tensor<std::int32_t, TypeParam>(tensor.block(), {4})));
  EXPECT_THROW((Tensor<float, Host>(tensor.block(), {4})), std::invalid_argument);
}

TYPED_TEST(OtherTypes, a_tensor_is_not_made_from_one_of_another_runtime) {
  Tensor<float, TypeParam> const tensor(this->other, {4});
  EXPECT_NO_THROW((Tensor<float, TypeParam>(tensor.any())));
  EXPECT_THROW((Tensor<float, Host>(tensor.any())), std::invalid_argument);
}

TYPED_TEST(OtherTypes, a_pinned_array_is_not_made_on_the_device_of_another_runtime) {
  EXPECT_NO_THROW((PinnedArray<float, TypeParam>(this->other.state(), 4)));
  EXPECT_THROW((PinnedArray<float, Host>(this->other.state(), 4)), std::invalid_argument);
}

TYPED_TEST(OtherTypes, streams_and_groups_are_not_those_of_another_runtime) {
  StreamPool<TypeParam> const pool(this->other, {.groups = 1});
  EXPECT_NO_THROW(StreamGroup<TypeParam>(pool[0].share_engine()));
  EXPECT_THROW(StreamGroup<Host>(pool[0].share_engine()), std::invalid_argument);
  EXPECT_THROW(Stream<Host>(pool[0].compute().body()), std::invalid_argument);
}

TYPED_TEST(OtherTypes, a_tracker_serves_one_runtime_type) {
  EXPECT_NO_THROW(Device<Host>({.tracker = this->host.tracker()}));
  auto const message = message_of<std::invalid_argument>(
      [&] { Device<Host> const refused({.tracker = this->other.tracker()}); });
  EXPECT_THAT(message, HasSubstr("DeviceOptions::tracker"));
  EXPECT_THAT(message, HasSubstr("another runtime type"));
  EXPECT_THROW(Device<TypeParam>({.tracker = this->host.tracker()}), std::invalid_argument);
  // Devices whose trackers were refused elsewhere still work.
  EXPECT_EQ(to_host(zeros<float>(this->host, {1})).front(), 0.0F);
  EXPECT_EQ(to_host(zeros<float>(this->other, {1})).front(), 0.0F);
}

TEST(OtherElements, a_tensor_is_not_made_from_one_with_other_elements) {
  Device<Host> const device;
  Tensor<float, Host> const tensor(device, {4});
  EXPECT_THROW((Tensor<std::int64_t, Host>(tensor.any())), std::invalid_argument);
  EXPECT_THROW((Tensor<std::int32_t, Host>(tensor.any())), std::invalid_argument)
      << "although both take four bytes";
}

}  // namespace
}  // namespace msstream::testing
