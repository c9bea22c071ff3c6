// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/base/error.hpp>

#include <type_traits>

namespace msstream::ops::kernels {

/// Throws std::invalid_argument unless `dtype` is float32, float16 or bfloat16. The message calls
/// the object that has the type `what`.
inline void require_real_type(char const* what, DType dtype) {
  require(dtype == DType::float32 || dtype == DType::float16 || dtype == DType::bfloat16,
          what,
          " of ",
          name_of(dtype),
          "; expected float32, float16 or bfloat16");
}

/// Calls function(std::type_identity<T>{}), where T is float, float16 or bfloat16 according to
/// `dtype`. Throws std::invalid_argument for any other type.
template <class Function>
decltype(auto) with_real_type(char const* what, DType dtype, Function&& function) {
  require_real_type(what, dtype);
  switch (dtype) {
    case DType::float16:
      return function(std::type_identity<float16>{});
    case DType::bfloat16:
      return function(std::type_identity<bfloat16>{});
    default:
      return function(std::type_identity<float>{});
  }
}

}  // namespace msstream::ops::kernels
