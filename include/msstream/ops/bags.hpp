// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/common.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <utility>

namespace msstream::ops {

/// A tensor of ids, int64 or int32.
template <Runtime R = DefaultRuntime>
class IdTensor;

/// The implementation of IdTensor, compiled once for all runtimes.
template <>
class IdTensor<detail::AnyRuntime> {
 public:
  IdTensor(detail::TensorOf<std::int64_t> const& ids)  // NOLINT(google-explicit-constructor)
      : any_(ids.any()) {}
  IdTensor(detail::TensorOf<std::int32_t> const& ids)  // NOLINT(google-explicit-constructor)
      : any_(ids.any()) {}

  /// Returns DType::int64 or DType::int32.
  [[nodiscard]] DType dtype() const noexcept { return any_.dtype(); }
  /// Returns the shape of the tensor, of any rank.
  [[nodiscard]] Shape const& shape() const noexcept { return any_.shape(); }
  /// Returns the number of ids.
  [[nodiscard]] std::int64_t count() const noexcept { return any_.count(); }
  [[nodiscard]] std::shared_ptr<detail::DeviceState> const& device() const noexcept {
    return any_.device();
  }
  /// Returns the address of the first id in device memory, of type dtype().
  [[nodiscard]] void const* data() const noexcept { return any_.data(); }
  [[nodiscard]] detail::AnyTensor const& any() const noexcept { return any_; }

 private:
  detail::AnyTensor any_;
};

template <Runtime R>
class IdTensor : public IdTensor<detail::AnyRuntime> {
  using Body = IdTensor<detail::AnyRuntime>;

 public:
  /// Takes a handle of the tensor: both share the ids.
  IdTensor(Tensor<std::int64_t, R> const& ids)  // NOLINT(google-explicit-constructor)
      : Body(ids) {}
  IdTensor(Tensor<std::int32_t, R> const& ids)  // NOLINT(google-explicit-constructor)
      : Body(ids) {}
  IdTensor(msstream::detail::OfKnownType, Body ids) noexcept : Body(std::move(ids)) {}

  /// Returns the ids as a Tensor<Id, R>. Throws std::invalid_argument if the ids are not of type
  /// Id.
  template <Element Id>
  [[nodiscard]] Tensor<Id, R> as() const {
    return detail::typed<R>(detail::TensorOf<Id>(any()));
  }
  /// Calls function(tensor) with the ids as a Tensor of int64 or int32, whichever they are, and
  /// returns the result by value.
  template <class Function>
  auto visit(Function&& function) const {
    return dtype() == DType::int64 ? std::forward<Function>(function)(as<std::int64_t>())
                                   : std::forward<Function>(function)(as<std::int32_t>());
  }
};

namespace detail {

/// Throws std::invalid_argument unless the ids have the shape [bags] or [bags, hotness].
void require_bags(IdTensor<AnyRuntime> const& ids);
/// Throws std::invalid_argument unless ids [capacity] and offsets [bags + 1] have these shapes, and
/// one element type.
void require_bags(IdTensor<AnyRuntime> const& ids, IdTensor<AnyRuntime> const& offsets);

}  // namespace detail

/// Ids grouped into bags, one bag per output row. Without `offsets`, `ids` is [bags] or [bags,
/// hotness]; with `offsets`, it is [capacity].
///
/// offsets: [bags + 1], ascending, on the device, of the ids' type. Bag b has the ids
/// ids[offsets[b] : offsets[b + 1]]. A bag whose offsets do not ascend within [0, capacity] has no
/// ids; docs/ops.md has the rule.
///
/// bag_count: a device scalar, the number of bags that exist; output rows beyond it are 0. One
/// launch thus serves every batch up to a capacity.
///
/// weights: of the ids' shape; the row of each id is multiplied by its weight.
///
/// default_id: the id that is looked up, with a weight of 1, for a bag without a valid id.
template <Runtime R = DefaultRuntime>
struct Bags {
  IdTensor<R> ids;
  std::optional<IdTensor<R>> offsets = {};
  DeviceCount<R> bag_count = {};                 ///< bags that exist; null: all
  std::optional<Tensor<float, R>> weights = {};  ///< in the shape of `ids`; null: 1 for each id
  std::optional<std::int64_t> default_id = {};   ///< for a bag without a valid id; null: none

  /// Makes bags of ids [bags] or [bags, hotness], or of ids [capacity] with offsets [bags + 1].
  /// Throws std::invalid_argument for other shapes, and for ids and offsets of different types.
  Bags(IdTensor<R> all_ids)  // NOLINT(google-explicit-constructor): ids without offsets are bags
      : ids(std::move(all_ids)) {
    detail::require_bags(ids);
  }
  Bags(IdTensor<R> all_ids, IdTensor<R> bag_offsets)
      : ids(std::move(all_ids)), offsets(std::move(bag_offsets)) {
    detail::require_bags(ids, *offsets);
  }
  template <Element Id>
  Bags(Tensor<Id, R> all_ids)  // NOLINT(google-explicit-constructor): ids without offsets are bags
      : Bags(IdTensor<R>(std::move(all_ids))) {}
  template <Element Id>
  Bags(Tensor<Id, R> all_ids, Tensor<Id, R> bag_offsets)
      : Bags(IdTensor<R>(std::move(all_ids)), IdTensor<R>(std::move(bag_offsets))) {}
  /// Converts bags to bags without a runtime type. For use by the library only.
  template <Runtime Other>
    requires(std::same_as<R, detail::AnyRuntime> && !std::same_as<Other, R>)
  Bags(Bags<Other> const& bags)  // NOLINT(google-explicit-constructor): loses only the type
      : ids(bags.ids),
        offsets(bags.offsets),
        bag_count(bags.bag_count),
        weights(bags.weights),
        default_id(bags.default_id) {}

  /// Returns the number of bags, counting those beyond `bag_count`.
  [[nodiscard]] std::int64_t bags() const {
    return offsets ? offsets->count() - 1 : ids.shape()[0];
  }
  /// Returns the number of ids per bag: 1 for ids [bags], and for bags by offsets, whose lengths
  /// vary.
  [[nodiscard]] std::int64_t hotness() const {
    return !offsets && ids.shape().rank() == 2 ? ids.shape()[1] : 1;
  }
};

namespace detail {

using AnyIds = IdTensor<AnyRuntime>;
using AnyBags = Bags<AnyRuntime>;

template <Runtime R>
[[nodiscard]] IdTensor<R> typed(AnyIds ids) {
  return {msstream::detail::OfKnownType(), std::move(ids)};
}
template <Runtime R>
[[nodiscard]] Bags<R> typed(AnyBags bags) {
  Bags<R> result(typed<R>(std::move(bags.ids)));
  if (bags.offsets) {
    result.offsets = typed<R>(*std::move(bags.offsets));
  }
  result.bag_count = typed<R>(std::move(bags.bag_count));
  result.weights = typed<R>(std::move(bags.weights));
  result.default_id = bags.default_id;
  return result;
}

// The implementations of cast_ids() and coo_bags(), compiled once for all runtimes.

[[nodiscard]] AnyTensor cast_ids(DType to, AnyIds const& ids, std::source_location issued_at);
[[nodiscard]] AnyBags coo_bags(AnyIds const& ids,
                               AnyIds const& bag_of_id,
                               std::int64_t bags,
                               std::source_location issued_at);

}  // namespace detail

/// Converts ids to int64 or int32. An id that does not fit into 32 bits becomes -1, which is a row
/// of no table. Ids that already have the wanted type are returned without a launch. Deterministic;
/// asynchronous; capture-safe.
template <Element To, Runtime R>
  requires(dtype_of<To> == DType::int32 || dtype_of<To> == DType::int64)
[[nodiscard]] Tensor<To, R> cast_ids(
    IdTensor<R> const& ids, std::source_location issued_at = std::source_location::current()) {
  return Tensor<To, R>(msstream::detail::OfKnownType(),
                       detail::cast_ids(dtype_of<To>, ids, issued_at));
}

/// Returns jagged bags from coordinates: ids[i] is in bag bag_of_id[i]. ids and bag_of_id are
/// [capacity], and bag_of_id ascends. An id whose bag is outside [0, bags) is in no bag. One of ids
/// and bag_of_id may be int32 and the other int64.
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
