// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Fills an array with random numbers. Element i has the word i % 4 of Philox block i / 4, and u =
/// (word + 1/2) / 2^32. It is base + factor * x, where x is u or the inverse of the normal
/// distribution at first_probability + probabilities * u; rounded to float32, clamped to
/// [low, high], and rounded to `dtype`. The bits are equal on both runtimes.
struct RandomFillArgs {
  void* data;
  DType dtype;  ///< float32, float16 or bfloat16
  std::int64_t count;
  std::uint64_t key;
  bool is_normal;
  double base;
  double factor;
  float low;
  float high;
  double first_probability = 0.0;
  double probabilities = 1.0;
  /// For a block of a matrix, whose element i is element of_block(i) of the matrix: its first
  /// element in the matrix, and the numbers of columns of both. No columns: the array is whole.
  std::int64_t first = 0;
  std::int64_t columns = 0;
  std::int64_t whole_columns = 0;

  [[nodiscard]] constexpr bool is_block() const { return columns > 0; }
  [[nodiscard]] constexpr std::int64_t of_block(std::int64_t element) const {
    return first + element / columns * whole_columns + element % columns;
  }
};
void random_fill(HostStream stream, RandomFillArgs const& args);
void random_fill(CudaStream stream, RandomFillArgs const& args);

/// Returns the probability of a standard normal variable to be below z: the inverse of
/// inverse_normal(), found by bisection, so that its bits depend on the arithmetic of that function
/// alone.
double normal_probability(double z);

}  // namespace msstream::ops::kernels
