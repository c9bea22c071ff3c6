// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/ops/jagged.hpp>
#include <msstream/ops/kernels/jagged.hpp>
#include <msstream/ops/offset_policy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

namespace msstream::ops::detail {
namespace {

void require_jagged_offsets(char const* operation, TensorOf<std::int64_t> const& offsets) {
  require(offsets.shape().rank() == 1 && offsets.count() >= 1,
          operation,
          ": offsets of shape ",
          offsets.shape(),
          "; expected [batch + 1]");
}

}  // namespace

}  // namespace msstream::ops::detail
