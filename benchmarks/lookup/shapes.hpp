// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>

#include <array>
#include <cstdint>
#include <vector>

/// The shapes of lookups that the programs of this folder measure.
namespace benchmarks::lookups {

struct Shape {
  msstream::DType dtype;
  int id_bits;
  std::int64_t rows;
  std::int64_t width;
  std::int64_t bags;
  std::int64_t hotness;
  /// Ids are uniform if 0, otherwise distributed by a power law with this exponent.
  double alpha;

  [[nodiscard]] double row_bytes() const {
    return static_cast<double>(width) * (dtype == msstream::DType::float32 ? 4 : 2);
  }
  /// Returns the bytes that the lookup moves: each row as often as it is looked up, ids and output.
  [[nodiscard]] double bytes() const {
    auto const places = static_cast<double>(bags) * static_cast<double>(hotness);
    return places * (row_bytes() + id_bits / 8.0) + static_cast<double>(bags) * row_bytes();
  }
};

/// Returns the shapes: all combinations of widths, hotness and batches of two grids, with types of
/// rows and ids and distributions of ids in turn. Lookups of more than 4 GB are left out.
inline std::vector<Shape> shapes() {
  using msstream::DType;
  constexpr std::array kRows{DType::float32, DType::float16, DType::float32, DType::bfloat16};
  constexpr std::array kAlphas{0.0, 1.05, 0.0, 1.2, 0.0};
  constexpr std::int64_t kTableRows = 2'000'000;
  constexpr double kMostBytes = 4e9;
  std::vector<Shape> all;
  auto const add = [&](std::int64_t width, std::int64_t bags, std::int64_t hotness) {
    auto const n = all.size();
    Shape const shape{kRows[(n + n / 28) % kRows.size()],
                      (n / 2 + n / 17) % 2 == 0 ? 64 : 32,
                      kTableRows,
                      width,
                      bags,
                      hotness,
                      kAlphas[(n + n / 30) % kAlphas.size()]};
    if (shape.bytes() <= kMostBytes) {
      all.push_back(shape);
    }
  };
  for (std::int64_t const width : {16, 32, 64, 96, 128, 192, 256, 512}) {
    for (std::int64_t const hotness : {1, 3, 10, 30, 100, 200}) {
      for (std::int64_t const bags : {256, 1000, 4096, 16384, 65536}) {
        add(width, bags, hotness);
      }
    }
  }
  for (std::int64_t const width : {24, 48, 80, 112, 160, 384}) {
    for (std::int64_t const hotness : {2, 5, 16, 64}) {
      for (std::int64_t const bags : {2048, 16384}) {
        add(width, bags, hotness);
      }
    }
  }
  // A table that fits in the caches, and the batch of a small request.
  all.push_back({DType::float32, 32, 1000, 64, 65536, 10, 0.0});
  for (std::int64_t const hotness : {1, 3, 100}) {
    all.push_back({DType::float32, 32, kTableRows, 96, 1000, hotness, 0.0});
  }
  return all;
}

}  // namespace benchmarks::lookups
