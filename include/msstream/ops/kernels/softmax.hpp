// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/id_policy.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// output[row, c] = exp(input[row, c] - m) / (the sum of these over the columns that count), m
/// being the largest of them: nothing overflows. Of row r the first lengths[r / rows_a_length]
/// columns count, at least 0 and at most all; the others get 0. NaN makes its row NaN. May be in
/// place.
struct SoftmaxArgs {
  float const* input;  ///< [rows, columns]
  float* output;       ///< [rows, columns]
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t const* lengths = nullptr;  ///< device memory, or null: all columns count
  std::int64_t rows_a_length = 1;
};
void softmax(HostStream stream, SoftmaxArgs const& args);
void softmax(CudaStream stream, SoftmaxArgs const& args);

/// input_gradient = y * (dy - (sum over the row of y * dy)), y being the output; 0 wherever y is 0,
/// whatever dy is there. May be in place.
struct SoftmaxGradientArgs {
  float const* output;           ///< [rows, columns]
  float const* output_gradient;  ///< [rows, columns]
  float* input_gradient;         ///< [rows, columns]
  std::int64_t rows;
  std::int64_t columns;
};
void softmax_gradient(HostStream stream, SoftmaxGradientArgs const& args);
void softmax_gradient(CudaStream stream, SoftmaxGradientArgs const& args);

/// losses[row] = log(sum over c of exp(logits[row, c])) - logits[row, class];
/// gradients[row, c] = softmax(logits[row])[c] - (1 if c is the class). A row whose class is
/// outside [0, columns) is reported, and has a loss and gradients of 0.
struct CrossEntropyArgs {
  float const* logits;          ///< [rows, columns]
  std::int64_t const* classes;  ///< [rows]
  float* losses;                ///< [rows]
  float* gradients;             ///< [rows, columns]
  std::int64_t rows;
  std::int64_t columns;
  IdReport report;
};
void softmax_cross_entropy(HostStream stream, CrossEntropyArgs const& args);
void softmax_cross_entropy(CudaStream stream, CrossEntropyArgs const& args);

}  // namespace msstream::ops::kernels
