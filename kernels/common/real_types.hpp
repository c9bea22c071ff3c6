// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>

#include <type_traits>

namespace msstream::ops::kernels {

/// Throws std::invalid_argument unless the type is float32, float16 or bfloat16. `what` names the
/// object that has the type.
void require_real_type(char const* what, DType dtype);

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

/// Calls function(std::type_identity<T>{}, std::type_identity<Result>{}), where T is the type of
/// operands and Result that of results: `result` is either float32 or the type of the operands.
template <class Function>
void with_real_types(char const* what, DType dtype, DType result, Function&& function) {
  with_real_type(what, dtype, [&](auto type) {
    if (result == DType::float32) {
      function(type, std::type_identity<float>{});
    } else {
      function(type, type);
    }
  });
}

}  // namespace msstream::ops::kernels
