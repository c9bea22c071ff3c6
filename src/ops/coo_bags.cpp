// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/ops/bags.hpp>
#include <msstream/ops/coo_bags.hpp>
#include <msstream/ops/kernels/cast_ids.hpp>
#include <msstream/ops/segment.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <limits>
#include <source_location>

namespace msstream::ops::detail {

Bags<AnyRuntime> coo_bags(IdTensor<AnyRuntime> const& ids,
                          IdTensor<AnyRuntime> const& bag_of_id,
                          std::int64_t bags,
                          std::source_location issued_at) {
  require(ids.shape().rank() == 1 && bag_of_id.shape() == ids.shape() && bags >= 0,
          "coo_bags: ids of shape ",
          ids.shape(),
          ", bag_of_id of shape ",
          bag_of_id.shape(),
          " for ",
          bags,
          " bags; expected one shape [capacity]");
  require(ids.dtype() == DType::int64 || ids.count() <= std::numeric_limits<std::int32_t>::max(),
          "coo_bags: ",
          ids.count(),
          " int32 ids are not below 2^31");
  auto const offsets =
      segment_offsets(cast_ids<std::int64_t>(bag_of_id, issued_at), bags, issued_at);
  return ids.dtype() == DType::int64
             ? Bags<AnyRuntime>(ids, IdTensor<AnyRuntime>(offsets))
             : Bags<AnyRuntime>(ids,
                                IdTensor<AnyRuntime>(cast_ids<std::int32_t>(
                                    IdTensor<AnyRuntime>(offsets), issued_at)));
}

}  // namespace msstream::ops::detail
