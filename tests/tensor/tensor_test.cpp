// SPDX-License-Identifier: Apache-2.0
#include "memory/blocks/block.hpp"
#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"
#include "stream/stream_context.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <gmock/gmock.h>

#include <stdexcept>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class R>
class TensorOf : public RuntimeTest<R> {};
TYPED_TEST_SUITE(TensorOf, Runtimes, RuntimeNames);

template <class F>
[[nodiscard]] std::string error_of(F&& call) {
  try {
    call();
  } catch (std::invalid_argument const& error) {
    return error.what();
  }
  return "no error";
}

TYPED_TEST(TensorOf, has_its_shape_and_aligned_memory) {
  Device<TypeParam> const device;
  Tensor<float, TypeParam> const tensor(device, {3, 5});
  EXPECT_EQ(tensor.shape(), (Shape{3, 5}));
  EXPECT_EQ(tensor.count(), 15);
  EXPECT_EQ(tensor.bytes(), 60U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 256, 0U);
  EXPECT_EQ((Tensor<float, TypeParam>(device, {}).count()), 1) << "a scalar";
}

TYPED_TEST(TensorOf, reshape_shares_the_elements) {
  Device<TypeParam> const device;
  auto const tensor = to_device(device, std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}, {2, 3});
  auto const reshaped = tensor.reshaped({3, 2});
  EXPECT_EQ(reshaped.shape(), (Shape{3, 2}));
  EXPECT_EQ(reshaped.identity(), tensor.identity());
  EXPECT_THAT(error_of([&] { (void)tensor.reshaped({4}); }),
              HasSubstr("reshape of [2, 3] to [4]: the element counts differ"));
}

TYPED_TEST(TensorOf, rows_share_the_elements_and_the_record) {
  Device<TypeParam> const device;
  auto const tensor = to_device(device, std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}, {3, 2});
  EXPECT_THAT(to_host(tensor.rows(1, 3)), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(to_host(tensor.rows(1, 3).rows(1, 2)), ElementsAre(5, 6));
  EXPECT_EQ(tensor.rows(2, 2).shape(), (Shape{0, 2}));
  EXPECT_EQ(tensor.rows(0, 1).block(), tensor.block());
  EXPECT_THAT(error_of([&] { (void)tensor.rows(1, 4); }),
              HasSubstr("rows [1, 4) of a tensor of shape [3, 2]"));
  EXPECT_THAT(error_of([&] { (void)tensor.rows(-1, 2); }), HasSubstr("rows [-1, 2)"));
  EXPECT_THAT(error_of([&] { (void)tensor.rows(2, 1); }), HasSubstr("rows [2, 1)"));
  EXPECT_THAT(error_of([&] { (void)Tensor<float, TypeParam>(device, {}).rows(0, 0); }),
              HasSubstr("of a tensor of shape []"));
}

TYPED_TEST(TensorOf, rows_of_no_rows) {
  Device<TypeParam> const device;
  Tensor<float, TypeParam> const empty(device, {0, 4});
  EXPECT_EQ(empty.rows(0, 0).shape(), (Shape{0, 4}));
  EXPECT_EQ(empty.rows(0, 0).data(), empty.data());
}

TYPED_TEST(TensorOf, copies_share_and_the_last_one_gives_back) {
  Device<TypeParam> const device;
  Tensor<float, TypeParam> tensor(device, {100});
  auto copied = tensor;
  EXPECT_EQ(copied.identity(), tensor.identity());
  auto moved = std::move(tensor);
  EXPECT_EQ(moved.identity(), copied.identity());
  copied = Tensor<float, TypeParam>(device, {100});
  EXPECT_EQ(device.memory_statistics().live_bytes, 1024U);
  moved = copied;
  EXPECT_EQ(device.memory_statistics().live_bytes, 512U);
  auto& self = moved;
  moved = self;
  EXPECT_EQ(moved.identity(), copied.identity());
}

TYPED_TEST(TensorOf, freeze_waits_for_the_writes) {
  Device<TypeParam> const device;
  auto tensor = to_device(device, std::vector<std::uint8_t>(1 << 20, 1), {1 << 20});
  EXPECT_FALSE(tensor.immutable());
  tensor.freeze();
  EXPECT_TRUE(tensor.immutable());
  for (auto const& write : tensor.block()->record.log.writes()) {
    EXPECT_TRUE(device.context()->tracker->is_complete(write));
  }
}

TYPED_TEST(TensorOf, frozen_memory_can_be_written_by_its_next_owner) {
  Device<TypeParam> const device;
  void const* memory = nullptr;
  {
    Tensor<std::uint8_t, TypeParam> frozen(device, {1000});
    frozen.freeze();
    memory = frozen.identity();
  }
  Tensor<std::uint8_t, TypeParam> const next(device, {1000});
  EXPECT_EQ(next.identity(), memory);
  EXPECT_FALSE(next.immutable());
  EXPECT_NO_THROW(fill_bytes(next, 1));
}

}  // namespace
}  // namespace msstream::testing
