// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device_bench.hpp"

#include <msstream/memory/device.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

namespace benchmarks {

/// The distribution of ids in [0, rows): uniform, or a power law in which the r-th most frequent id
/// has a probability proportional to r^-1.05, with the frequent ids spread over the rows.
enum class Draw : std::uint8_t { uniform, power_law };
inline constexpr Draw kDraws[] = {Draw::uniform, Draw::power_law};

[[nodiscard]] inline std::string_view name_of(Draw draw) {
  return draw == Draw::uniform ? "uniform" : "power_law";
}

[[nodiscard]] inline std::vector<std::int64_t> drawn(std::int64_t count,
                                                     std::int64_t rows,
                                                     Draw draw) {
  constexpr double kExponent = 1.0 - 1.05;
  constexpr std::int64_t kSpread = 2'654'435'761;
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> unit;
  auto const most = std::pow(static_cast<double>(rows) + 1.0, kExponent);
  auto spread = kSpread;
  while (std::gcd(spread, rows) != 1) {
    spread += 2;
  }
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  std::generate(ids.begin(), ids.end(), [&]() -> std::int64_t {
    auto const u = unit(random);
    if (draw == Draw::uniform) {
      return std::min(static_cast<std::int64_t>(u * static_cast<double>(rows)), rows - 1);
    }
    auto const rank = static_cast<std::int64_t>(std::pow(u * (most - 1.0) + 1.0, 1.0 / kExponent));
    return std::clamp<std::int64_t>(rank - 1, 0, rows - 1) * spread % rows;
  });
  return ids;
}

template <ms::Element Id, ms::Runtime R>
ms::Tensor<Id, R> put_ids(ms::Device<R> const& device,
                          std::vector<std::int64_t> const& ids,
                          ms::Shape const& shape) {
  return ms::to_device<Id, R>(device, std::vector<Id>(ids.begin(), ids.end()), shape);
}

/// Returns random elements in (-1, 1): a sample of at most 65,537 rows, repeated to fill the
/// tensor.
template <ms::Element T, ms::Runtime R>
ms::Tensor<T, R> random_rows(ms::Device<R> const& device, std::int64_t rows, std::int64_t width) {
  constexpr std::int64_t kSampleRows = 65'537;
  auto const sample_rows = std::min(kSampleRows, rows);
  std::mt19937 random(2);
  std::uniform_real_distribution<float> unit(-1.0F, 1.0F);
  std::vector<T> values(static_cast<std::size_t>(sample_rows * width));
  std::generate(values.begin(), values.end(), [&] { return ms::from_float<T>(unit(random)); });
  auto const sample = ms::to_device<T, R>(device, values, {sample_rows, width});
  ms::Tensor<T, R> all(device, {rows, width});
  for (std::int64_t begin = 0; begin < rows; begin += sample_rows) {
    auto const end = std::min(begin + sample_rows, rows);
    ms::copy(all.rows(begin, end), sample.rows(0, end - begin));
  }
  return all;
}

}  // namespace benchmarks
