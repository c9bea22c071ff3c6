// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/fp8.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

/// A matrix of 8-bit floats, as quantise() writes it.
struct Fp8Matrix {
  std::uint8_t const* codes;  ///< row-major, padded
  float const* scales;        ///< [kFp8Scales]
  Fp8Format format;
};

/// Computes result = activation(left · rightᵀ + bias), whose products are those of the quantised
/// numbers, divided by their scales. Sums are float32, and rounded to the result's type once; or
/// twice on CUDA, if cuBLASLt does not offer the activation. Not both formats may be e5m2.
///
/// On CUDA the tensor cores multiply 8-bit floats, by cuBLASLt. They add some of the products up in
/// fewer bits than a float32 has, with an error within 2^-8 of the sum of the magnitudes. On a GPU
/// without such products a kernel multiplies float16, which has all numbers of both formats. The
/// order of the sums depends only on the sizes and the device. Capture-safe.
struct Fp8ProductArgs {
  Fp8Matrix left;    ///< [rows, inner]
  Fp8Matrix right;   ///< [columns, inner]
  void const* bias;  ///< [columns] of `dtype`, or null
  void* result;      ///< [rows, columns] of `dtype`
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t inner;
  Activation activation = Activation::none;  ///< none or relu
  DType dtype = DType::float32;              ///< float32, float16 or bfloat16
  void* workspace = nullptr;                 ///< fp8_product_workspace_bytes() bytes
  bool uses_float16 = false;                 ///< whether CUDA multiplies float16 on every GPU
};
/// Returns the bytes of workspace that fp8_product() needs, from the sizes alone: 0 on the host,
/// and if the columns are a multiple of kFp8Multiple.
std::size_t fp8_product_workspace_bytes(HostStream stream, Fp8ProductArgs const& args);
std::size_t fp8_product_workspace_bytes(CudaStream stream, Fp8ProductArgs const& args);
void fp8_product(HostStream stream, Fp8ProductArgs const& args);
void fp8_product(CudaStream stream, Fp8ProductArgs const& args);

}  // namespace msstream::ops::kernels
