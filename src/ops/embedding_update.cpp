// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/ops/embedding_gradient.hpp>
#include <msstream/ops/embedding_update.hpp>
#include <msstream/ops/kernels/embedding_update.hpp>
#include <msstream/ops/optimizer.hpp>
#include <msstream/ops/optimizer_rule.hpp>
#include <msstream/ops/pooling.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <optional>
#include <source_location>

namespace msstream::ops::detail {}  // namespace msstream::ops::detail
