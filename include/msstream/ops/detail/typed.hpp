// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/tensor/detail/typed.hpp>

namespace msstream::ops::detail {

using msstream::detail::AnyRuntime;
using msstream::detail::AnyTensor;
using msstream::detail::DeviceState;
using msstream::detail::Floats;
using msstream::detail::TensorOf;
using msstream::detail::typed;
using msstream::detail::untyped;

}  // namespace msstream::ops::detail
