// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "common/long_sum.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

/// The second-order term of factorization machines (Rendle: Factorization Machines, 2010, lemma
/// 3.1). Elements are widened to float32, and results are rounded from float64 once. Sums over
/// features are added in float32 in parts of kTermsOfPart features, and the parts in float64; so
/// are sums over columns. Gradients are computed in float64. The order of the additions depends on
/// the sizes and the type alone.
namespace msstream::ops::kernels {

/// The sum of the products of all pairs of numbers: each number times the sum of those before it,
/// so that no squares cancel.
class PairSum {
 public:
  MSSTREAM_HOST_DEVICE void add(float value) {
    part_pairs_ += value * part_;
    part_ += value;
  }
  /// Adds the float32 parts to the float64 totals. Must be called after at most kTermsOfPart
  /// numbers, and after the last one.
  MSSTREAM_HOST_DEVICE void fold() {
    pairs_ += static_cast<double>(part_pairs_) + sum_ * static_cast<double>(part_);
    sum_ += static_cast<double>(part_);
    part_pairs_ = 0.0F;
    part_ = 0.0F;
  }
  [[nodiscard]] MSSTREAM_HOST_DEVICE double pairs() const { return pairs_; }

 private:
  float part_pairs_ = 0.0F;
  float part_ = 0.0F;
  double pairs_ = 0.0;
  double sum_ = 0.0;
};

/// Computes output[b] = the sum over the columns c and the pairs of features i < j of embeddings[b,
/// i, c] * embeddings[b, j, c].
struct FactorizationMachineArgs {
  void const* embeddings;  ///< [batch, features, width] of `dtype`
  void* output;            ///< [batch] of `dtype`
  std::int64_t batch;
  std::int64_t features;
  std::int64_t width;
  DType dtype;  ///< float32, float16 or bfloat16
};
void factorization_machine(HostStream stream, FactorizationMachineArgs const& args);
void factorization_machine(CudaStream stream, FactorizationMachineArgs const& args);

/// Computes input_gradient[b, i, c] = output_gradient[b] * (the sum over the features j of
/// embeddings[b, j, c] - embeddings[b, i, c]).
struct FactorizationMachineGradientArgs {
  void const* embeddings;       ///< [batch, features, width] of `dtype`
  void const* output_gradient;  ///< [batch] of `dtype`
  void* input_gradient;         ///< [batch, features, width] of `dtype`
  std::int64_t batch;
  std::int64_t features;
  std::int64_t width;
  DType dtype;  ///< float32, float16 or bfloat16
};
void factorization_machine_gradient(HostStream stream,
                                    FactorizationMachineGradientArgs const& args);
void factorization_machine_gradient(CudaStream stream,
                                    FactorizationMachineGradientArgs const& args);

}  // namespace msstream::ops::kernels
