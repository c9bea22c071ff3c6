// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>

#include <cstdint>
#include <type_traits>

namespace msstream {

/// The type in which a model computes its products and keeps what is between its layers. Weights,
/// their gradients, their moments, and the sums of products are float32 in every precision.
///
/// fp32: float32, or tf32 products where the pool's LibraryOptions choose them. bf16: bfloat16,
/// with the range of float32 and 8 bits of precision. fp16: float16, with 11 bits, a largest number
/// of 65,504 and a smallest of 2^-24, so that gradients need a loss scale.
enum class Precision : std::uint8_t { fp32, bf16, fp16 };

/// Calls function(std::type_identity<T>{}) with the element type of a precision: float, bfloat16 or
/// float16. A model whose functions are templates of the element type thus has its precision as an
/// option of the program.
template <class Function>
decltype(auto) with_precision(Precision precision, Function&& function) {
  switch (precision) {
    case Precision::bf16:
      return function(std::type_identity<bfloat16>{});
    case Precision::fp16:
      return function(std::type_identity<float16>{});
    case Precision::fp32:
      break;
  }
  return function(std::type_identity<float>{});
}

}  // namespace msstream
