// SPDX-License-Identifier: Apache-2.0
#include "ids/cast_ids.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/bags.hpp>
#include <msstream/ops/segment.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <limits>
#include <source_location>

namespace msstream::ops::detail {

AnyTensor cast_ids(DType to, AnyIds const& ids, std::source_location issued_at) {
  if (ids.dtype() == to) {
    return ids.any();
  }
  AnyTensor out(ids.device(), to, ids.shape());
  kernels::CastIdsArgs const args{ids.data(), ids.dtype(), out.data(), to, ids.count()};
  issue(
      "cast_ids",
      reads(ids.any()),
      writes(out),
      [args](auto stream) { kernels::cast_ids(stream, args); },
      {},
      issued_at);
  return out;
}

AnyBags coo_bags(AnyIds const& ids,
                 AnyIds const& bag_of_id,
                 std::int64_t bags,
                 std::source_location issued_at) {
  require(
      ids.shape().rank() == 1 && bag_of_id.shape() == ids.shape() && bags >= 0,
      "coo_bags: ids of shape {}, bag_of_id of shape {} for {} bags; expected one shape [capacity]",
      ids.shape(),
      bag_of_id.shape(),
      bags);
  require(ids.dtype() == DType::int64 || ids.count() <= std::numeric_limits<std::int32_t>::max(),
          "coo_bags: {} int32 ids are not below 2^31",
          ids.count());
  AnyIds const offsets =
      segment_offsets(cast_ids(DType::int64, bag_of_id, issued_at), bags, issued_at);
  return ids.dtype() == DType::int64
             ? AnyBags(ids, offsets)
             : AnyBags(ids, TensorOf<std::int32_t>(cast_ids(DType::int32, offsets, issued_at)));
}

}  // namespace msstream::ops::detail
