// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/ops/bags.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/ops/kernels/table_rows.hpp>
#include <msstream/ops/out_of_range.hpp>
#include <msstream/ops/pooling.hpp>
#include <msstream/ops/table_batch.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

namespace msstream::ops::detail {
namespace {

/// Returns bags ordered sample by sample, for ids [tables, batch] or [tables, batch, hotness] that
/// are stored table by table. The ids are not moved. Throws std::invalid_argument for other shapes.
Bags<AnyRuntime> sample_major(std::int64_t tables, TensorOf<std::int64_t> const& ids) {
  auto const& shape = ids.shape();
  require((shape.rank() == 2 || shape.rank() == 3) && shape[0] == tables,
          "ids of ",
          tables,
          " tables, of shape ",
          shape,
          "; expected [tables, batch] or [tables, batch, hotness]");
  return Bags<AnyRuntime>(ids.reshaped({shape[0] * shape[1], shape.rank() == 3 ? shape[2] : 1}));
}

}  // namespace

}  // namespace msstream::ops::detail
