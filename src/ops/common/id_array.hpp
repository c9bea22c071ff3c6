// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/id_array.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

#include <cstdint>

namespace msstream::ops::detail {

/// Returns the elements of an int64 or int32 tensor in the form in which kernels read ids.
[[nodiscard]] inline kernels::IdArray id_array(msstream::detail::AnyTensor const& ids) {
  return ids.dtype() == DType::int64 ? kernels::IdArray(ids.data_as<std::int64_t>())
                                     : kernels::IdArray(ids.data_as<std::int32_t>());
}

}  // namespace msstream::ops::detail
