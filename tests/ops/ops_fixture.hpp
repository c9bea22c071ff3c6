// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/message_of.hpp"
#include "kernels/kernel_fixture.hpp"
#include "memory/runtimes.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/tensor/copy.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace msstream::testing {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Integers = std::vector<std::int64_t>;
using ops::kernels::testing::kPoisonByte;
using ops::kernels::testing::Random;

template <class T>
[[nodiscard]] Doubles to_doubles(std::vector<T> const& values) {
  Doubles out;
  for (auto const& value : values) {
    out.push_back(to_float(value));
  }
  return out;
}

/// Expects every element to be within `tolerance`, relative to 1 and to the expected value.
inline void expect_near(Floats const& actual, Doubles const& expected, double tolerance = 2e-6) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_TRUE(std::abs(actual[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i])))
        << "element " << i << " is " << actual[i] << ", not " << expected[i];
  }
}

/// Expects std::invalid_argument with a message that contains each of the words, such as the
/// operation's name and the shapes.
template <class Call, class... Words>
void expect_refused(Call call, Words const&... words) {
  EXPECT_THAT(message_of<std::invalid_argument>(call),
              ::testing::AllOf(::testing::HasSubstr(fmt::format("{}", words))...));
}

/// Fills free blocks of every size that the tests use with NaNs and -1, which reveals an element
/// that an operation forgets to write.
template <Runtime R>
void poison_free_memory(Device<R> const& device) {
  constexpr std::int64_t kLeastBytes = 64;
  constexpr std::int64_t kMostBytes = 1 << 18;
  constexpr int kBlocks = 6;
  std::vector<Tensor<std::uint8_t, R>> held;
  for (auto bytes = kLeastBytes; bytes <= kMostBytes; bytes += bytes / 4) {
    for (int i = 0; i < kBlocks; ++i) {
      fill_bytes(held.emplace_back(device, Shape{bytes}), kPoisonByte);
    }
  }
}

/// A fixture with a device whose free memory is poisoned, random numbers, and short functions
/// that make tensors.
template <Runtime R>
class OpsTest : public RuntimeTest<R> {
 protected:
  void SetUp() override {
    RuntimeTest<R>::SetUp();
    if (!this->IsSkipped()) {
      device_.emplace();
      poison_free_memory(*device_);
    }
  }
  void TearDown() override {
    if (this->HasFailure()) {
      std::cerr << "random seed: MSSTREAM_TEST_SEED=" << random.seed() << '\n';
    }
  }

  [[nodiscard]] Device<R> const& device() const { return *device_; }
  template <Element T>
  [[nodiscard]] Tensor<T, R> put(std::vector<T> const& values, Shape const& shape) const {
    return to_device<T, R>(device(), values, shape);
  }
  template <Element T>
  [[nodiscard]] Tensor<T, R> put(std::vector<T> const& values) const {
    return put(values, {static_cast<std::int64_t>(values.size())});
  }
  [[nodiscard]] Tensor<std::int64_t, R> scalar(std::int64_t value) const {
    return put(Integers{value}, Shape{});
  }
  /// Returns a tensor of zeros, for tests in which an operation refuses the shape.
  template <Element T = float>
  [[nodiscard]] Tensor<T, R> any(Shape const& shape) const {
    return zeros<T>(device(), shape);
  }
  [[nodiscard]] Tensor<float, R> random_tensor(Shape const& shape) {
    return put(random.reals(shape.count()), shape);
  }

  Random random;

 private:
  std::optional<Device<R>> device_;
};

}  // namespace msstream::testing
