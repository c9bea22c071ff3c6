// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "random/dropout.hpp"
#include "random/fill.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// The places of the random numbers of an array [samples, columns]. The words of a place depend on
/// the state, the stream, the number of the sample and the column alone.
struct DrawPlaces {
  std::int64_t samples;
  std::int64_t columns;
  std::int64_t first_sample;  ///< the number of row 0
  std::uint64_t stream;
  RandomState const* state;
};

inline constexpr int kRealsABlock = 4;     ///< real numbers that a Philox block gives
inline constexpr int kIntegersABlock = 2;  ///< integers that a Philox block gives

/// Draws the numbers of a distribution in each sample: column c has the word c % 4 of Philox block
/// c / 4, from which random_fill() makes an element. The bits are equal on both runtimes.
struct DrawRealsArgs {
  DrawPlaces places;
  RandomFillArgs fill;  ///< the array and the distribution; its count and its key have no effect
};
void draw_reals(HostStream stream, DrawRealsArgs const& args);
void draw_reals(CudaStream stream, DrawRealsArgs const& args);

/// Draws integers in [low, low + range) in each sample. Column c is low + floor(range * w / 2^64),
/// where w is the number of 64 bits in the words 2 (c % 2) and 2 (c % 2) + 1 of Philox block c / 2,
/// the lower word first. Each integer is drawn with the same probability, except for less than
/// 2^-64. The bits are equal on both runtimes.
struct DrawIntegersArgs {
  DrawPlaces places;
  void* data;
  DType dtype;  ///< int32 or int64
  std::int64_t low;
  std::uint64_t range;
};
void draw_integers(HostStream stream, DrawIntegersArgs const& args);
void draw_integers(CudaStream stream, DrawIntegersArgs const& args);

}  // namespace msstream::ops::kernels
