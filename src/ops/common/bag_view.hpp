// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ids/bag_view.hpp"

#include <msstream/ops/bags.hpp>
#include <msstream/tensor/issue.hpp>

namespace msstream::ops::detail {

using Reads = msstream::detail::Uses<AnyRuntime, AccessMode::read>;
using Writes = msstream::detail::Uses<AnyRuntime, AccessMode::write>;

/// Returns the pointers and sizes of the bags for a kernel. Throws std::invalid_argument if
/// `bag_count` is not a scalar, if the number of weights differs from the number of ids, or if the
/// default id is negative.
[[nodiscard]] kernels::BagView view_of(AnyBags const& bags);
/// Returns the tensors that an operation on the bags reads.
[[nodiscard]] Reads reads_of(AnyBags const& bags);

}  // namespace msstream::ops::detail
