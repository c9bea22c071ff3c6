// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/embedding/table_gradient.hpp"

#include <memory>

namespace msstream::detail {

class StreamGroup;

/// The gradient that a table or a view of it gets from lookups, and the stream group on which the
/// backward of the first of them ran.
struct LookupGradient {
  ops::detail::TableGradient rows;
  std::shared_ptr<StreamGroup> group;  ///< null if the backward ran outside every scope
};

}  // namespace msstream::detail
