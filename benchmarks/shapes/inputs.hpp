// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "case.hpp"

#include <msstream/msstream.hpp>

#include <cstdint>
#include <vector>

struct CUstream_st;

/// The inputs of the measured operations, drawn on the GPU.
namespace benchmarks::shapes {

namespace ms = msstream;
template <class T>
using Tensor = ms::Tensor<T, ms::Cuda>;
using Device = ms::Device<ms::Cuda>;

/// How ids are drawn.
struct IdDraw {
  std::int64_t below;  ///< ids are in [0, below)
  Skew skew;
  bool is_hashed = false;  ///< ids are spread over all values of their type
};
/// Draws ids on a stream, the same ones in each run. Id is std::int32_t or std::int64_t.
template <class Id>
void draw_ids(Id* ids, std::int64_t count, IdDraw const& draw, CUstream_st* stream);

template <class Id>
[[nodiscard]] Tensor<Id> drawn_ids(Device const& device,
                                   ms::Shape const& shape,
                                   IdDraw const& draw) {
  Tensor<Id> const ids(device, shape);
  ms::issue("draw_ids", ms::writes(ids), [=](auto stream) {
    draw_ids(ids.data(), ids.count(), draw, stream);
  });
  return ids;
}

/// Returns random elements in (-1, 1).
template <class T>
[[nodiscard]] Tensor<T> drawn_rows(Device const& device, std::int64_t rows, std::int64_t width) {
  return ms::ops::random_uniform<T>(device, {rows, width}, ms::RandomKey(1, 1), -1.0F, 1.0F);
}

/// Returns the first row of each segment, and the number of all rows: [segments + 1].
template <class Id>
[[nodiscard]] Tensor<Id> offsets_of(Device const& device, Case const& what) {
  auto const starts = segment_starts(what.skew, what.segments, what.places());
  return ms::to_device<Id, ms::Cuda>(
      device, std::vector<Id>(starts.begin(), starts.end()), {what.segments + 1});
}

}  // namespace benchmarks::shapes
