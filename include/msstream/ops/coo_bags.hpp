// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/bags.hpp>
#include <msstream/ops/detail/typed.hpp>

#include <cstdint>
#include <source_location>

namespace msstream::ops {

namespace detail {

// The bodies of the functions below.

[[nodiscard]] AnyTensor cast_ids(DType to, AnyIds const& ids, std::source_location issued_at);
[[nodiscard]] AnyBags coo_bags(AnyIds const& ids,
                               AnyIds const& bag_of_id,
                               std::int64_t bags,
                               std::source_location issued_at);

}  // namespace detail

/// Converts ids to int64 or int32. An id that does not fit into 32 bits loses its upper 32 bits. If
/// the ids already have the type, returns the same tensor without a launch. Deterministic;
/// asynchronous; capture-safe.
template <Element To, Runtime R>
  requires(dtype_of<To> == DType::int32 || dtype_of<To> == DType::int64)
[[nodiscard]] Tensor<To, R> cast_ids(
    IdTensor<R> const& ids, std::source_location issued_at = std::source_location::current()) {
  return Tensor<To, R>(msstream::detail::OfKnownType(),
                       detail::cast_ids(dtype_of<To>, ids, issued_at));
}

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
