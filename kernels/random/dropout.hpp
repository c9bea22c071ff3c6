// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// The state of a random generator, in device memory.
struct RandomState {
  std::uint64_t seed;
  std::int64_t step;
};
/// Sets the state of a generator.
void set_random(HostStream stream, RandomState const& value, RandomState* state);
void set_random(CudaStream stream, RandomState const& value, RandomState* state);
/// Increments the step of a generator.
void advance_random(HostStream stream, RandomState* state);
void advance_random(CudaStream stream, RandomState* state);

/// Computes output[s, c] = scale * input[s, c] for the elements that are kept, and 0 for the
/// others. An element is kept if its random word is at least `threshold`. The word depends on the
/// state, the stream, the number of the sample and the column alone; the bits are equal on both
/// runtimes. Computed in float32, and rounded once. The output may be the input. Serves the forward
/// and, with the state that the forward has drawn with, the backward.
struct DropoutArgs {
  void const* input;  ///< [samples, columns] of `dtype`
  void* output;       ///< [samples, columns] of `dtype`
  std::int64_t samples;
  std::int64_t columns;
  std::int64_t first_sample;  ///< the number of row 0
  std::uint64_t stream;
  std::uint32_t threshold;
  float scale;
  RandomState const* state;
  RandomState* drawn;            ///< receives the state, or null
  DType dtype = DType::float32;  ///< float32, float16 or bfloat16
};
void dropout(HostStream stream, DropoutArgs const& args);
void dropout(CudaStream stream, DropoutArgs const& args);

}  // namespace msstream::ops::kernels
