// SPDX-License-Identifier: Apache-2.0
// Tests tensors in memory that other code owns.
#include "memory/device/foreign_block.hpp"

#include "memory/watched_runtime.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/tensor.hpp>

#include <gmock/gmock.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;

/// A deleter that counts how often the memory goes back to its owner.
struct Returned {
  std::atomic<int>* count;
  void operator()(void const*) const { ++*count; }
};

template <class TypeParam>
class Foreign : public RuntimeTest<TypeParam> {
 protected:
  using R = Watched<TypeParam>;
  static constexpr std::size_t kBytes = 1000;

  void SetUp() override {
    RuntimeTest<TypeParam>::SetUp();
    if (!this->IsSkipped()) {
      device.emplace(watched_device<TypeParam>({}));
      memory = device->runtime().allocate_device(kBytes);
    }
  }
  void TearDown() override {
    if (memory != nullptr) {
      device->runtime().free_device(memory, kBytes);
    }
  }
  [[nodiscard]] memory::BlockRef adopt(void* of_somebody, std::size_t bytes) {
    // Makes the owner's pointer non-null, so that the deleter also runs for a block of 0 bytes.
    std::unique_ptr<void const, Returned> owner(this, Returned{&returned});
    return memory::adopt(device->state(), of_somebody, bytes, std::move(owner));
  }

  std::optional<Device<R>> device;
  void* memory = nullptr;
  std::atomic<int> returned{0};
};
TYPED_TEST_SUITE(Foreign, Runtimes, RuntimeNames);

TYPED_TEST(Foreign, memory_goes_back_once_whoever_is_last_and_never_to_the_pool) {
  using Bytes = Tensor<std::uint8_t, Watched<TypeParam>>;
  auto const reserved = this->device->memory_statistics().reserved_bytes;
  {
    Bytes const tensor(this->adopt(this->memory, this->kBytes), {1000});
    fill_bytes(tensor, 3);
    EXPECT_EQ(to_host(tensor), std::vector<std::uint8_t>(1000, 3));
    std::vector<Bytes> views(4, tensor);
    {
      std::vector<std::jthread> threads;
      for (auto& view : views) {
        threads.emplace_back([last = std::move(view)] {});
      }
    }
    views.clear();
    EXPECT_EQ(this->returned, 0);
  }
  EXPECT_EQ(this->returned, 1);
  EXPECT_EQ(this->device->memory_statistics().live_bytes, 0U);
  EXPECT_EQ(this->device->memory_statistics().reserved_bytes, reserved);
  EXPECT_NE(Bytes(*this->device, {1000}).data(), this->memory);
}

TYPED_TEST(Foreign, memory_of_no_bytes_is_an_empty_tensor) {
  {
    Tensor<std::uint8_t, Watched<TypeParam>> const tensor(this->adopt(nullptr, 0), {0, 4});
    fill_bytes(tensor, 1);
    EXPECT_TRUE(to_host(tensor).empty());
  }
  EXPECT_EQ(this->returned, 1);
}

TYPED_TEST(Foreign, memory_that_is_too_small_for_the_shape_is_refused_and_given_back) {
  try {
    Tensor<std::uint8_t, Watched<TypeParam>> const tensor(this->adopt(this->memory, this->kBytes),
                                                          {10, 101});
    FAIL() << "1010 elements in 1000 bytes";
  } catch (std::invalid_argument const& error) {
    EXPECT_THAT(error.what(), HasSubstr("shape [10, 101]"));
    EXPECT_THAT(error.what(), HasSubstr("1010 bytes"));
    EXPECT_THAT(error.what(), HasSubstr("1000"));
  }
  EXPECT_EQ(this->returned, 1);
}

}  // namespace
}  // namespace msstream::testing
