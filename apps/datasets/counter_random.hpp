// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/detail/counter_random.hpp>

/// The generator of the library's loader, for the generated data sets.
namespace msstream::datasets {

using data::detail::mix64;
using data::detail::normal_of;
using data::detail::random_bits;
using data::detail::uniform_of;

}  // namespace msstream::datasets
