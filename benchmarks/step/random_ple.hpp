// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "axes.hpp"
#include "datasets/counter_random.hpp"
#include "ple_shape.hpp"
#include "training/click_batch.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/tensor/copy.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

/// The train_ple model in the sizes of axes::Ple, and random batches for it.
namespace benchmarks {

inline constexpr std::uint64_t kPleSeed = 1;

/// Returns the shape of the model, with tables of axes::Ple::kTableRows / `divisor` rows.
[[nodiscard]] inline train_ple::PleShape random_ple_shape(std::int64_t divisor) {
  using axes::Ple;
  return {.table_rows = std::vector<std::int64_t>(static_cast<std::size_t>(Ple::kFields),
                                                  Ple::kTableRows / divisor),
          .continuous = Ple::kContinuous,
          .seed = kPleSeed};
}

/// Returns a random batch: keys uniform over 40 bits, and uniform values and labels. Batches of
/// different numbers differ.
template <msstream::Runtime R>
[[nodiscard]] train_ple::DeviceBatch<R> random_ple_batch(msstream::Device<R> const& device,
                                                         std::int64_t rows,
                                                         std::uint64_t number = 0) {
  using axes::Ple;
  using msstream::datasets::random_bits;
  std::uint64_t draw = 0;
  auto const next = [&] { return random_bits(kPleSeed, number, draw++); };
  std::vector<std::int64_t> keys(static_cast<std::size_t>(Ple::kFields * rows * Ple::kHotness));
  for (auto& key : keys) {
    key = static_cast<std::int64_t>(next() >> 24U);
  }
  std::vector<float> floats(static_cast<std::size_t>(rows * (Ple::kContinuous + Ple::kTasks)));
  auto const first_label = floats.begin() + rows * Ple::kContinuous;
  std::generate(floats.begin(), first_label, [&] {
    return static_cast<float>(msstream::datasets::uniform_of(next()));
  });
  std::generate(first_label, floats.end(), [&] { return static_cast<float>(next() % 2); });
  auto const count = static_cast<std::int64_t>(floats.size());
  return msstream::training::click_batch<R>(
      msstream::to_device<std::int64_t, R>(device, keys, {Ple::kFields, rows, Ple::kHotness}),
      msstream::to_device<float, R>(device, floats, {count}),
      {Ple::kContinuous, Ple::kTasks});
}

}  // namespace benchmarks
