// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/id_report.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Computes the softmax of rows: output[row, c] = exp(input[row, c] - m) / (the sum of such
/// exponentials over the columns that take part), where m is the largest input among these columns,
/// so that nothing overflows. The first lengths[r / rows_a_length] columns of row r take part,
/// clamped to [0, columns]; the other columns get 0. A NaN among the columns that take part makes
/// all of them NaN. The output may be the input, if they have one type; it is rounded once.
struct SoftmaxArgs {
  void const* input;  ///< [rows, columns] of `input_dtype`
  void* output;       ///< [rows, columns] of `dtype`
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t const* lengths = nullptr;  ///< device memory, or null if all columns take part
  std::int64_t rows_a_length = 1;
  DType dtype = DType::float32;        ///< of the output: float32, float16 or bfloat16
  DType input_dtype = DType::float32;  ///< float32, or `dtype`
};
void softmax(HostStream stream, SoftmaxArgs const& args);
void softmax(CudaStream stream, SoftmaxArgs const& args);

/// Computes the gradient of softmax(): input_gradient = y * (dy - (sum over the row of y * dy)),
/// where y is the output and dy its gradient. The result is 0 wherever y is 0, even if dy is
/// infinite or NaN there. The result may overwrite an input, and is rounded once.
struct SoftmaxGradientArgs {
  void const* output;           ///< [rows, columns] of `dtype`
  void const* output_gradient;  ///< [rows, columns] of `dtype`
  void* input_gradient;         ///< [rows, columns] of `dtype`
  std::int64_t rows;
  std::int64_t columns;
  DType dtype = DType::float32;  ///< float32, float16 or bfloat16
};
void softmax_gradient(HostStream stream, SoftmaxGradientArgs const& args);
void softmax_gradient(CudaStream stream, SoftmaxGradientArgs const& args);

/// Computes the softmax cross-entropy losses[row] = log(sum over c of exp(logits[row, c])) -
/// logits[row, class] and gradients[row, c] = softmax(logits[row])[c] - (1 if c is the class). A
/// row whose class is outside [0, columns) is reported, and its loss and gradients are 0. With a
/// `smoothing` e the target of each column is e / columns, and 1 - e more for the class. Both are
/// multiplied by the weight of the row. With `candidates`, a column whose id is that of the class
/// is left out, except the class itself: its logit counts as -infinity. No smoothing then.
struct CrossEntropyArgs {
  void const* logits;           ///< [rows, columns] of `dtype`
  std::int64_t const* classes;  ///< [rows]
  float* losses;                ///< [rows]
  void* gradients;              ///< [rows, columns] of `gradient_dtype`, rounded once
  std::int64_t rows;
  std::int64_t columns;
  IdReport report;
  float smoothing = 0.0F;    ///< in [0, 1]
  bool ignores = false;      ///< whether rows of the class `ignored` are left out, unreported
  std::int64_t ignored = 0;  ///< a class, of any value
  /// [rows]: 0 for ignored rows, otherwise 1 or, with `counts_weights`, the weight; or null
  float* counted = nullptr;
  bool counts_weights = false;
  /// [rows], or null if all are 1. Rows of weight 0 are left out, unreported.
  float const* weights = nullptr;
  std::int64_t const* candidates = nullptr;  ///< [columns], the id of each column; or null
  DType dtype = DType::float32;              ///< float32, float16 or bfloat16
  DType gradient_dtype = DType::float32;     ///< float32, or `dtype`
};
void softmax_cross_entropy(HostStream stream, CrossEntropyArgs const& args);
void softmax_cross_entropy(CudaStream stream, CrossEntropyArgs const& args);

}  // namespace msstream::ops::kernels
