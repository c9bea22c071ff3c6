// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/existing_places.hpp"
#include "common/host_device.hpp"
#include "elementwise/reduce_math.hpp"
#include "segment/segment.hpp"

#include <cmath>
#include <cstdint>
#include <type_traits>

/// The segment reductions that the CPU and the CUDA implementation share. A combiner defines the
/// value that an element contributes, the initial value, and how two values are combined.
namespace msstream::ops::kernels {

template <class Reducer>
struct EveryElement : Reducer {
  MSSTREAM_HOST_DEVICE static float element(float x) { return x; }
};
struct Product {
  MSSTREAM_HOST_DEVICE static constexpr float nothing() { return 1.0F; }
  MSSTREAM_HOST_DEVICE static float combine(float a, float b) { return a * b; }
};
/// The product of the elements of a segment that are not 0. Only elements are left out, not
/// products, which may underflow to 0.
struct ProductOfNonzeros : Product {
  MSSTREAM_HOST_DEVICE static float element(float x) { return x == 0.0F ? 1.0F : x; }
};

/// Whether a combiner adds, so that its long sums are added in float32 parts and a float64 total.
template <class Combiner>
inline constexpr bool adds_up = std::is_base_of_v<Total, Combiner>;

/// Returns the number by which a reduction divides the sum of `rows` rows: the number of rows for a
/// mean, its square root for sqrtn, otherwise 1.
MSSTREAM_HOST_DEVICE inline float segment_divisor(SegmentReduction reduction, std::int64_t rows) {
  auto const count = static_cast<float>(rows);
  return reduction == SegmentReduction::mean    ? count
         : reduction == SegmentReduction::sqrtn ? std::sqrt(count)
                                                : 1.0F;
}

/// Returns the gradient of element x in a product over a segment. `product` is the product of the
/// elements that are not 0, and `zeros` is the number of elements that are 0.
MSSTREAM_HOST_DEVICE inline float product_gradient(float gradient,
                                                   float x,
                                                   float product,
                                                   std::uint32_t zeros) {
  return zeros == 0                ? gradient * (product / x)
         : zeros == 1 && x == 0.0F ? gradient * product
                                   : 0.0F;
}

/// Returns the segment id of a position that exists.
[[nodiscard]] constexpr std::int64_t segment_id(SegmentLayout const& layout, std::int64_t place) {
  return layout.id_type == DType::int32
             ? std::int64_t{static_cast<std::int32_t const*>(layout.indices)[place]}
             : static_cast<std::int64_t const*>(layout.indices)[place];
}

/// Returns the number of positions that exist in a layout of segments: `*count` limited to the
/// capacity, or the capacity if `count` is null.
[[nodiscard]] constexpr std::int64_t existing_places(SegmentLayout const& layout) {
  return layout.count != nullptr ? clamped(*layout.count, layout.capacity) : layout.capacity;
}

/// Returns the segment of a position in a layout by ids, or -1 if the position is in no segment.
[[nodiscard]] constexpr std::int64_t segment_of_place(SegmentLayout const& layout,
                                                      std::int64_t existing,
                                                      std::int64_t place) {
  auto const id = place < existing ? segment_id(layout, place) : -1;
  return is_in_range(id, layout.segments) ? id : -1;
}

}  // namespace msstream::ops::kernels
