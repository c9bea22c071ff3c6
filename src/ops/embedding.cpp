// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/ops/bags.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/ops/kernels/embedding.hpp>
#include <msstream/ops/out_of_range.hpp>
#include <msstream/ops/pooling.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <optional>
#include <source_location>

namespace msstream::ops::detail {
namespace {

/// Returns the output shape of a lookup: [bags, width], or [ids, width] for Pooling::none.
Shape pooled_shape(Bags<AnyRuntime> const& bags, Pooling pooling, std::int64_t width) {
  return {pooling == Pooling::none ? bags.ids.count() : bags.bags(), width};
}

void require_pooling(char const* operation,
                     Bags<AnyRuntime> const& bags,
                     Pooling pooling,
                     std::optional<TensorOf<std::int32_t>> const& argmax,
                     Shape const& pooled) {
  require(!bags.weights || pooling != Pooling::max, operation, ": the maximum takes no weights");
  require(!bags.default_id || pooling != Pooling::none,
          operation,
          ": a default id is for bags, and nothing is pooled");
  require(!argmax || (pooling == Pooling::max && argmax->shape() == pooled),
          operation,
          ": argmax of shape ",
          argmax ? argmax->shape() : Shape{},
          "; expected that of the maximum, ",
          pooled);
}

}  // namespace

}  // namespace msstream::ops::detail
