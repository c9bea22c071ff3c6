// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "segment/columns.cuh"
#include "segment/places.cuh"
#include "segment/tuning.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

// Rules that define the gradient of an element of a segment, one per reduction. A rule loads the
// `Terms` of an element by its position and its segment, for several positions at once, and then
// computes the gradient of each element from its terms.

/// The gradient of the segment reductions sum, mean and sqrtn: the gradient of the segment, divided
/// by the divisor of its sum.
template <int Count>
struct ScaledRule {
  float const* output_gradient;
  SegmentReduction reduction;

  struct Terms {
    Columns<Count> gradient;
    std::int64_t rows;
  };
  template <class Places>
  __device__ Terms load(Places const& places,
                        std::int64_t segment,
                        std::int64_t at_segment,
                        std::int64_t /*at_place*/) const {
    return {load_columns<Count>(output_gradient + at_segment),
            divides(reduction) ? places.rows(segment) : 1};
  }
  __device__ Columns<Count> gradient(Terms const& terms) const {
    auto gradient = terms.gradient;
    if (divides(reduction)) {
      gradient.multiply(1.0F / segment_divisor(reduction, terms.rows));
    }
    return gradient;
  }
};

/// The number of matching elements of a segment in each of `Count` neighbouring columns.
template <int Count>
struct Matches {
  std::uint32_t at[Count];

  __device__ explicit Matches(std::uint32_t const* from) {
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      at[c] = __ldg(from + c);
    }
  }
};

/// The gradient of the segment reductions max and min: equal shares of the segment's gradient for
/// all elements that equal the extremum.
template <int Count>
struct ExtremumRule {
  float const* output_gradient;
  float const* values;
  float const* output;
  std::uint32_t const* ties;

  struct Terms {
    Columns<Count> gradient;
    Columns<Count> value;
    Columns<Count> extremum;
    Matches<Count> ties;
  };
  template <class Places>
  __device__ Terms load(Places const& /*places*/,
                        std::int64_t /*segment*/,
                        std::int64_t at_segment,
                        std::int64_t at_place) const {
    return {load_columns<Count>(output_gradient + at_segment),
            load_once<Count>(values + at_place),
            load_columns<Count>(output + at_segment),
            Matches<Count>(ties + at_segment)};
  }
  __device__ Columns<Count> gradient(Terms const& terms) const {
    Columns<Count> gradient;
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      if (is_extremum(terms.value.at[c], terms.extremum.at[c])) {
        gradient.at[c] = terms.gradient.at[c] / static_cast<float>(terms.ties.at[c]);
      }
    }
    return gradient;
  }
};

/// The gradient of the segment reduction prod: the gradient of the segment times the product of the
/// other elements of the segment.
template <int Count>
struct ProductRule {
  float const* output_gradient;
  float const* values;
  float const* products;  ///< [segments, width]: product of the nonzero elements
  std::uint32_t const* zeros;

  struct Terms {
    Columns<Count> gradient;
    Columns<Count> value;
    Columns<Count> product;
    Matches<Count> zeros;
  };
  template <class Places>
  __device__ Terms load(Places const& /*places*/,
                        std::int64_t /*segment*/,
                        std::int64_t at_segment,
                        std::int64_t at_place) const {
    return {load_columns<Count>(output_gradient + at_segment),
            load_once<Count>(values + at_place),
            load_columns<Count>(products + at_segment),
            Matches<Count>(zeros + at_segment)};
  }
  __device__ Columns<Count> gradient(Terms const& terms) const {
    Columns<Count> gradient;
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      gradient.at[c] = product_gradient(
          terms.gradient.at[c], terms.value.at[c], terms.product.at[c], terms.zeros.at[c]);
    }
    return gradient;
  }
};

/// The neighbouring positions over which the calling thread's group of lanes, or its warp, walks,
/// and those of them that its lanes take: kGradientInFlight positions from begin + offset on, and
/// so on every `step` positions.
template <class Places>
struct WalkedPlaces {
  LaneGroup group;  ///< the lanes that walk together
  std::int64_t begin;
  std::int64_t end;
  int offset = 0;
  int step = kGradientInFlight;

  __device__ WalkedPlaces(RowLanes const& shape, std::int64_t capacity)
      : group(Places::kWalksByWarp ? 32 : shape.lanes()) {
    int const rows = group.lanes >> shape.log2_lanes;
    auto const places = gradient_places(capacity, shape.lanes()) * rows;
    begin = grid_thread() / group.lanes * places;
    end = min(begin + places, capacity);
    offset = (group.lane >> shape.log2_lanes) * kGradientInFlight;
    step *= rows;
  }
};

/// Finds the segments of the positions `first` + k before `end`, -1 for a position in no segment.
template <class Walk>
__device__ void find_segments(Walk& walk,
                              std::int64_t first,
                              std::int64_t end,
                              std::int64_t (&segments)[kGradientInFlight]) {
  if constexpr (requires { walk.segments(first, segments); }) {
    walk.segments(first, segments);
  } else {
#pragma unroll
    for (int k = 0; k < kGradientInFlight; ++k) {
      segments[k] = first + k < end ? walk.segment(first + k) : -1;
    }
  }
}

/// Writes the gradients of gradient_places() neighbouring rows with each group of lanes, which
/// loads the terms of several rows at once. For positions in no segment the terms of the first
/// segment are loaded, so there must be a segment.
template <class Places, class Rule, int Count>
__global__ void __launch_bounds__(kGradientThreads, kGradientBlocks) segment_gradient_kernel(
    Places places, Rule rule, RowLanes shape, std::int64_t capacity, float* value_gradients) {
  constexpr int kInFlight = kGradientInFlight;
  WalkedPlaces<Places> const mine(shape, capacity);
  auto const end = mine.end;
  if (mine.begin >= end) {
    return;
  }
  typename Places::Walk walk(places, mine.group, mine.begin, end);
  for (auto base = mine.begin; base < end; base += mine.step) {
    auto const first = base + mine.offset;
    std::int64_t segments[kInFlight];
    find_segments(walk, first, end, segments);
    for (std::int64_t column = shape.lane() * Count; column < shape.width;
         column += shape.lanes() * Count) {
      Columns<Count> gradients[kInFlight];
      auto const terms_of = [&](int k) {
        auto const segment = max(segments[k], std::int64_t{0});
        auto const place = min(first + k, end - 1);
        return rule.load(
            places, segment, segment * shape.width + column, place * shape.width + column);
      };
      typename Rule::Terms const terms[kInFlight] = {
          terms_of(0), terms_of(1), terms_of(2), terms_of(3)};
      static_assert(kInFlight == 4);
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        if (first + k < end) {
          store_columns(value_gradients + (first + k) * shape.width + column,
                        segments[k] >= 0 ? rule.gradient(terms[k]) : Columns<Count>{});
        }
      }
    }
  }
}

/// The test of count_matches_kernel() for elements that equal the extremum of their segment.
struct EqualsExtremum {
  float const* output;

  template <int Count>
  __device__ Columns<Count> terms(std::int64_t at_segment) const {
    return load_columns<Count>(output + at_segment);
  }
  __device__ static bool matches(float value, float extremum) {
    return is_extremum(value, extremum);
  }
};
struct IsZero {
  template <int Count>
  __device__ Columns<Count> terms(std::int64_t /*at_segment*/) const {
    return {};
  }
  __device__ static bool matches(float value, float /*term*/) { return value == 0.0F; }
};

/// Adds to counts[s, c] the number of elements of segment s and column c that pass the matcher's
/// test. A group of lanes counts in registers as long as the segment is the same. The counts are
/// integers, so any order of the additions gives the same result.
template <class Places, class Matcher, int Count>
__global__ void __launch_bounds__(kGradientThreads, kGradientBlocks)
    count_matches_kernel(Places places,
                         Matcher matcher,
                         float const* values,
                         RowLanes shape,
                         std::int64_t capacity,
                         std::uint32_t* counts) {
  constexpr int kInFlight = kGradientInFlight;
  WalkedPlaces<Places> const mine(shape, capacity);
  auto const end = mine.end;
  if (mine.begin >= end) {
    return;
  }
  typename Places::Walk walk(places, mine.group, mine.begin, end);
  auto const column = (std::int64_t{blockIdx.y} * shape.lanes() + shape.lane()) * Count;
  bool const is_column = column < shape.width;
  std::int64_t current = -1;
  std::uint32_t matches[Count] = {};
  auto const flush = [&] {
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      if (matches[c] > 0) {
        atomicAdd(counts + current * shape.width + column + c, matches[c]);
        matches[c] = 0;
      }
    }
  };
  for (auto base = mine.begin; base < end; base += mine.step) {
    auto const first = base + mine.offset;
    std::int64_t segments[kInFlight];
    Columns<Count> elements[kInFlight];
    Columns<Count> terms[kInFlight];
    find_segments(walk, first, end, segments);
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (is_column && segments[k] >= 0) {
        elements[k] = load_once<Count>(values + (first + k) * shape.width + column);
        terms[k] = matcher.template terms<Count>(segments[k] * shape.width + column);
      }
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (is_column && segments[k] >= 0) {
        if (segments[k] != current) {
          flush();
          current = segments[k];
        }
#pragma unroll
        for (int c = 0; c < Count; ++c) {
          matches[c] += Matcher::matches(elements[k].at[c], terms[k].at[c]) ? 1U : 0U;
        }
      }
    }
  }
  flush();
}

}  // namespace msstream::ops::kernels
