// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding/embedding.hpp"

#include "embedding/lookup.hpp"
#include "ops/common/bag_view.hpp"
#include "ops/common/id_trap.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <optional>
#include <source_location>

namespace msstream::ops::detail {

void require_weights(char const* operation, DType dtype) {
  bool const is_weight =
      dtype == DType::float32 || dtype == DType::float16 || dtype == DType::bfloat16;
  require(is_weight, "{}: a table of {}; expected float32, float16 or bfloat16", operation, dtype);
}

Shape pooled_shape(AnyBags const& bags, Pooling pooling, std::int64_t width) {
  return {pooling == Pooling::none ? bags.ids.count() : bags.bags(), width};
}

void require_pooling(char const* operation,
                     AnyBags const& bags,
                     Pooling pooling,
                     std::optional<TensorOf<std::int32_t>> const& argmax,
                     Shape const& pooled) {
  require(!bags.weights || pooling != Pooling::max, "{}: the maximum takes no weights", operation);
  require(!bags.default_id || pooling != Pooling::none,
          "{}: a default id is for bags, and nothing is pooled",
          operation);
  require(!argmax || (pooling == Pooling::max && argmax->shape() == pooled),
          "{}: argmax of shape {}; expected that of the maximum, {}",
          operation,
          argmax ? argmax->shape() : Shape{},
          pooled);
}

AnyTensor embedding_lookup(DType output,
                           AnyTensor const& table,
                           AnyBags const& bags,
                           LookupOptions<AnyRuntime> const& options,
                           std::source_location issued_at) {
  require(table.shape().rank() == 2,
          "embedding_lookup: table of shape {}; expected [rows, width]",
          table.shape());
  require_weights("embedding_lookup", table.dtype());
  require_weights("embedding_lookup", output);
  auto const& rows = table.shape()[0];
  require(!bags.default_id || *bags.default_id < rows,
          "embedding_lookup: a default id of {} for a table of {} rows",
          bags.default_id.value_or(0),
          rows);
  auto const shape = pooled_shape(bags, options.pooling, table.shape()[1]);
  require_pooling("embedding_lookup", bags, options.pooling, options.argmax, shape);
  AnyTensor pooled(table.device(), output, shape);
  kernels::LookupArgs args{.table = table.data(),
                           .table_dtype = table.dtype(),
                           .rows = rows,
                           .width = table.shape()[1],
                           .bags = view_of(bags),
                           .pooling = options.pooling,
                           .report = {},
                           .output = pooled.data(),
                           .output_dtype = output,
                           .argmax = options.argmax ? options.argmax->data() : nullptr};
  Writes written;
  written.add(pooled);
  if (options.argmax) {
    written.add(*options.argmax);
  }
  args.report = id_report(
      "embedding_lookup", *table.device(), options.out_of_range, options.bad_id_count, written);
  auto read = reads_of(bags);
  read.add(table);
  issue(
      "embedding_lookup",
      read,
      written,
      [args](auto stream) { kernels::embedding_lookup(stream, args); },
      {},
      issued_at);
  return pooled;
}

}  // namespace msstream::ops::detail
