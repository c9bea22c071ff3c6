// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/ops/embedding_gradient.hpp>
#include <msstream/ops/embedding_tables.hpp>
#include <msstream/ops/embedding_tables_gradient.hpp>
#include <msstream/ops/kernels/embedding_tables_gradient.hpp>
#include <msstream/ops/pooling.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <source_location>

namespace msstream::ops::detail {}  // namespace msstream::ops::detail
