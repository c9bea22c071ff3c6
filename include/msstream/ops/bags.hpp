// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/device_count.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace msstream::ops {

/// A tensor of ids, int64 or int32.
template <Runtime R = DefaultRuntime>
class IdTensor;

/// The body of the ids of all runtimes.
template <>
class IdTensor<detail::AnyRuntime> {
 public:
  IdTensor(detail::TensorOf<std::int64_t> const& ids)  // NOLINT(google-explicit-constructor): both
                                                       // element types are ids
      : any_(ids.any()) {}
  IdTensor(detail::TensorOf<std::int32_t> const& ids)  // NOLINT(google-explicit-constructor): both
                                                       // element types are ids
      : any_(ids.any()) {}

  [[nodiscard]] DType dtype() const noexcept { return any_.dtype(); }
  [[nodiscard]] Shape const& shape() const noexcept { return any_.shape(); }
  [[nodiscard]] std::int64_t count() const noexcept { return any_.count(); }
  [[nodiscard]] std::shared_ptr<detail::DeviceState> const& device() const noexcept {
    return any_.device();
  }
  [[nodiscard]] void const* data() const noexcept { return any_.data(); }
  [[nodiscard]] detail::AnyTensor const& any() const noexcept { return any_; }

 private:
  detail::AnyTensor any_;
};

template <Runtime R>
class IdTensor : public IdTensor<detail::AnyRuntime> {
  using Body = IdTensor<detail::AnyRuntime>;

 public:
  IdTensor(Tensor<std::int64_t, R> const& ids)  // NOLINT(google-explicit-constructor): both element
                                                // types are ids
      : Body(ids) {}
  IdTensor(Tensor<std::int32_t, R> const& ids)  // NOLINT(google-explicit-constructor): both element
                                                // types are ids
      : Body(ids) {}
  IdTensor(msstream::detail::OfKnownType, Body ids) noexcept : Body(std::move(ids)) {}

  /// Returns the ids as a tensor of type Id. Throws std::invalid_argument if the ids have the other
  /// type.
  template <Element Id>
  [[nodiscard]] Tensor<Id, R> as() const {
    return detail::typed<R>(detail::TensorOf<Id>(any()));
  }
  /// Calls function(ids) with the ids as a tensor of their type.
  template <class Function>
  decltype(auto) visit(Function&& function) const {
    return dtype() == DType::int64 ? std::forward<Function>(function)(as<std::int64_t>())
                                   : std::forward<Function>(function)(as<std::int32_t>());
  }
};

namespace detail {

/// Throws std::invalid_argument unless the ids have a shape of bags.
void require_bags(IdTensor<AnyRuntime> const& ids);
/// Throws std::invalid_argument unless ids and offsets have shapes of jagged bags, and one type.
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
/// default_id: the id that a bag without a valid id holds instead, with a weight of 1.
template <Runtime R = DefaultRuntime>
struct Bags {
  IdTensor<R> ids;
  std::optional<IdTensor<R>> offsets = {};
  DeviceCount<R> bag_count = {};
  std::optional<Tensor<float, R>> weights = {};
  std::optional<std::int64_t> default_id = {};

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
  /// For the library itself: the same bags, on a device of whichever runtime.
  template <Runtime Other>
    requires(std::same_as<R, detail::AnyRuntime> && !std::same_as<Other, R>)
  Bags(Bags<Other> const& bags)  // NOLINT(google-explicit-constructor): loses only the type
      : ids(bags.ids),
        offsets(bags.offsets),
        bag_count(bags.bag_count),
        weights(bags.weights),
        default_id(bags.default_id) {}

  [[nodiscard]] std::int64_t bags() const {
    return offsets ? offsets->count() - 1 : ids.shape()[0];
  }
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

}  // namespace detail

}  // namespace msstream::ops
