// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/bags.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/segment.hpp>

#include <cstdint>
#include <source_location>

namespace msstream::ops {

/// Converts ids to int64 or int32. An id that does not fit into 32 bits loses its upper 32 bits. If
/// the ids already have the type, returns the same tensor without a launch. Deterministic;
/// asynchronous; capture-safe.
template <Element To, Runtime R>
  requires(dtype_of<To> == DType::int32 || dtype_of<To> == DType::int64)
[[nodiscard]] Tensor<To, R> cast_ids(
    IdTensor<R> const& ids, std::source_location issued_at = std::source_location::current()) {
  if (ids.dtype() == dtype_of<To>) {
    return ids.template as<To>();
  }
  Tensor<To, R> out(ids.device(), ids.shape());
  kernels::CastIdsArgs const args{ids.data(), ids.dtype(), out.data(), dtype_of<To>, ids.count()};
  ids.visit([&](auto const& from) {
    issue(
        "cast_ids",
        reads(from),
        writes(out),
        [args](auto stream) { kernels::cast_ids(stream, args); },
        {},
        issued_at);
  });
  return out;
}

namespace detail {

// The bodies of the functions below.

[[nodiscard]] Bags<AnyRuntime> coo_bags(IdTensor<AnyRuntime> const& ids,
                                        IdTensor<AnyRuntime> const& bag_of_id,
                                        std::int64_t bags,
                                        std::source_location issued_at);

}  // namespace detail

/// Returns jagged bags from coordinates: ids[i] is in bag bag_of_id[i]. ids and bag_of_id are
/// [capacity], and bag_of_id ascends. An id whose bag is outside [0, bags) is in no bag. The two
/// may mix int32 and int64.
///
/// Computes the offsets on the device. Deterministic; asynchronous; capture-safe. Throws
/// std::invalid_argument for other shapes, and for int32 ids whose capacity int32 cannot represent.
template <Runtime R>
[[nodiscard]] Bags<R> coo_bags(IdTensor<R> const& ids,
                               IdTensor<R> const& bag_of_id,
                               std::int64_t bags,
                               std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::coo_bags(ids, bag_of_id, bags, issued_at));
}
template <Element Id, Element BagId, Runtime R>
[[nodiscard]] Bags<R> coo_bags(Tensor<Id, R> const& ids,
                               Tensor<BagId, R> const& bag_of_id,
                               std::int64_t bags,
                               std::source_location issued_at = std::source_location::current()) {
  return coo_bags(IdTensor<R>(ids), IdTensor<R>(bag_of_id), bags, issued_at);
}

}  // namespace msstream::ops
