// SPDX-License-Identifier: Apache-2.0
// Tests that reserved memory follows the memory in use when one thread creates tensors and another
// one releases them.
#include "memory/run_threads.hpp"
#include "memory/runtimes.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <semaphore>
#include <utility>

namespace msstream::testing {
namespace {

constexpr int kTensors = 4'000;
constexpr int kHandedOver = 4;  ///< most tensors between a loader and its trainer
constexpr int kInFlight = 8;    ///< tensors between two waits of a trainer for the device
constexpr int kPairs = 2;       ///< pairs of a loader and a trainer
constexpr std::size_t kGrowthBytes = std::size_t{8} << 20U;

template <Runtime R>
class LoaderAndTrainer {
 public:
  using Bytes = Tensor<std::uint8_t, R>;

  LoaderAndTrainer(Device<R> const& device, StreamPool<R> const& pool, int pair)
      : device_(device), loaders_(pool[2 * pair]), trainers_(pool[2 * pair + 1]) {}

  void load(std::int64_t least_bytes, std::int64_t most_bytes, bool with_work) {
    StreamScope const scope(loaders_);
    std::mt19937_64 random(1);
    for (std::size_t i = 0; i < kTensors; ++i) {
      Bytes batch(device_, {std::uniform_int_distribution(least_bytes, most_bytes)(random)});
      if (with_work) {
        issue("load", writes(batch), [](auto) {});
      }
      free_.acquire();
      handed_over_[i % kHandedOver].emplace(std::move(batch));
      full_.release();
    }
  }
  void train(bool with_work) {
    StreamScope const scope(trainers_);
    for (std::size_t i = 0; i < kTensors; ++i) {
      full_.acquire();
      Bytes const batch = *std::exchange(handed_over_[i % kHandedOver], std::nullopt);
      free_.release();
      if (with_work) {
        issue("train", reads(batch), [](auto) {});
      }
      if (i % kInFlight == 0) {
        trainers_.synchronize();
      }
    }
  }

 private:
  Device<R> const& device_;
  StreamGroup<R> const& loaders_;
  StreamGroup<R> const& trainers_;
  std::array<std::optional<Bytes>, kHandedOver> handed_over_;
  std::counting_semaphore<> free_{kHandedOver};
  std::counting_semaphore<> full_{0};
};

template <class TypeParam>
class LoaderAndTrainerTest : public RuntimeTest<TypeParam> {};
TYPED_TEST_SUITE(LoaderAndTrainerTest, Runtimes, RuntimeNames);

TYPED_TEST(LoaderAndTrainerTest, reserve_half_more_than_is_in_use_and_a_step) {
  for (bool const with_work : {false, true}) {
    for (auto const& [least, most] : {std::pair{kMiB, 2 * kMiB}, {1000, kMiB / 2}}) {
      SCOPED_TRACE(::testing::Message()
                   << least << " to " << most << " bytes, work: " << with_work);
      Device<TypeParam> const device({.memory = {.max_growth_bytes = kGrowthBytes}});
      StreamPool pool(device, {.groups = 2 * kPairs});
      LoaderAndTrainer<TypeParam> first(device, pool, 0);
      LoaderAndTrainer<TypeParam> second(device, pool, 1);
      std::array const pairs{&first, &second};
      run_threads(2 * kPairs, [&, least = least, most = most](int thread) {
        auto& pair = *pairs[static_cast<std::size_t>(thread / 2)];
        thread % 2 == 0 ? pair.load(least, most, with_work) : pair.train(with_work);
      });
      // Each pair of a loader and a trainer has at most these tensors in use: those handed over,
      // one per thread, and on the device those released since the trainer's last wait, and one
      // before them.
      constexpr std::size_t kInUse = kPairs * (kHandedOver + 2 + kInFlight + 1);
      EXPECT_LE(device.memory_statistics().peak_reserved_bytes,
                kInUse * static_cast<std::size_t>(most) * 3 / 2 + kGrowthBytes);
    }
  }
}

}  // namespace
}  // namespace msstream::testing
