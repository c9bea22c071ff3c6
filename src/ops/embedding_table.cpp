// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/ops/embedding_table.hpp>
#include <msstream/ops/kernels/embedding_tables.hpp>
#include <msstream/ops/pooling.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <variant>

namespace msstream::ops::detail {
namespace {

kernels::TableDescriptor describe_table(std::size_t number,
                                        EmbeddingTable<AnyRuntime> const& table) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  return std::visit(
      [&]<Element T>(TensorOf<T> const& weights) {
        auto const& shape = weights.shape();
        require(shape.rank() == 2 && shape[1] >= 1 && shape[1] <= kMost,
                "embedding table ",
                number,
                " of shape ",
                shape,
                "; expected [rows, width], at least one column wide");
        require(table.pooling != Pooling::none,
                "embedding table ",
                number,
                ": tables that are looked up together are pooled");
        require(table.hotness >= 0 && table.hotness <= kMost,
                "embedding table ",
                number,
                ": a hotness of ",
                table.hotness);
        auto const default_id = table.default_id.value_or(-1);
        require(!table.default_id || (default_id >= 0 && default_id < shape[0]),
                "embedding table ",
                number,
                ": a default id of ",
                default_id,
                " for ",
                shape[0],
                " rows");
        return kernels::TableDescriptor{.table = weights.data(),
                                        .rows = shape[0],
                                        .default_id = default_id,
                                        .width = static_cast<std::int32_t>(shape[1]),
                                        .hotness = static_cast<std::int32_t>(table.hotness),
                                        .dtype = dtype_of<T>,
                                        .pooling = table.pooling};
      },
      table.weights);
}

}  // namespace

}  // namespace msstream::ops::detail
