// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/device_count.hpp>
#include <msstream/ops/kernels/bag_view.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

namespace msstream::ops {

/// A tensor of ids, int64 or int32.
template <Runtime R = DefaultRuntime>
class IdTensor {
 public:
  IdTensor(Tensor<std::int64_t, R> ids)  // NOLINT(google-explicit-constructor): both element types
                                         // are ids
      : ids_(std::move(ids)) {}
  IdTensor(Tensor<std::int32_t, R> ids)  // NOLINT(google-explicit-constructor): both element types
                                         // are ids
      : ids_(std::move(ids)) {}

  [[nodiscard]] DType dtype() const noexcept {
    return ids_.index() == 0 ? DType::int64 : DType::int32;
  }
  [[nodiscard]] Shape const& shape() const {
    return visit([](auto const& ids) -> Shape const& { return ids.shape(); });
  }
  [[nodiscard]] std::int64_t count() const { return shape().count(); }
  [[nodiscard]] std::shared_ptr<msstream::detail::DeviceState> const& device() const {
    return visit([](auto const& ids) -> std::shared_ptr<msstream::detail::DeviceState> const& {
      return ids.device();
    });
  }
  [[nodiscard]] void const* data() const {
    return visit([](auto const& ids) { return static_cast<void const*>(ids.data()); });
  }
  /// Returns the ids as a tensor of type Id. Throws std::invalid_argument if the ids have the other
  /// type.
  template <Element Id>
  [[nodiscard]] Tensor<Id, R> const& as() const {
    require(
        dtype() == dtype_of<Id>, "ids of ", name_of(dtype()), " taken for ", name_of(dtype_of<Id>));
    return std::get<Tensor<Id, R>>(ids_);
  }
  template <class Function>
  decltype(auto) visit(Function&& function) const {
    return std::visit(std::forward<Function>(function), ids_);
  }

 private:
  std::variant<Tensor<std::int64_t, R>, Tensor<std::int32_t, R>> ids_;
};

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
    require(ids.shape().rank() == 1 || ids.shape().rank() == 2,
            "bags of fixed hotness: ids of shape ",
            ids.shape(),
            "; expected [bags] or [bags, hotness]");
  }
  Bags(IdTensor<R> all_ids, IdTensor<R> bag_offsets)
      : ids(std::move(all_ids)), offsets(std::move(bag_offsets)) {
    require(ids.shape().rank() == 1 && offsets->shape().rank() == 1 && offsets->count() >= 1,
            "jagged bags: ids of shape ",
            ids.shape(),
            ", offsets of shape ",
            offsets->shape(),
            "; expected [capacity] and [bags + 1]");
    require(offsets->dtype() == ids.dtype(),
            "jagged bags: ids of ",
            name_of(ids.dtype()),
            " with offsets of ",
            name_of(offsets->dtype()),
            "; expected the same type");
  }
  template <Element Id>
  Bags(Tensor<Id, R> all_ids)  // NOLINT(google-explicit-constructor): ids without offsets are bags
      : Bags(IdTensor<R>(std::move(all_ids))) {}
  template <Element Id>
  Bags(Tensor<Id, R> all_ids, Tensor<Id, R> bag_offsets)
      : Bags(IdTensor<R>(std::move(all_ids)), IdTensor<R>(std::move(bag_offsets))) {}

  [[nodiscard]] std::int64_t bags() const {
    return offsets ? offsets->count() - 1 : ids.shape()[0];
  }
  [[nodiscard]] std::int64_t hotness() const {
    return !offsets && ids.shape().rank() == 2 ? ids.shape()[1] : 1;
  }
  /// Returns the pointers and sizes that kernels need. Throws std::invalid_argument if bag_count is
  /// not a scalar, if there is not one weight per id, or if the default id is negative.
  [[nodiscard]] kernels::BagView view() const {
    require(!bag_count || bag_count->count() == 1,
            "bags: a bag_count of shape ",
            bag_count ? bag_count->shape() : Shape{},
            "; expected a scalar");
    require(!weights || weights->count() == ids.count(),
            "bags: weights of shape ",
            weights ? weights->shape() : Shape{},
            " for ids of shape ",
            ids.shape());
    require(!default_id || *default_id >= 0,
            "bags: a default id of ",
            default_id.value_or(0),
            "; expected a row of the table");
    return {.ids = ids.data(),
            .id_dtype = ids.dtype(),
            .bags = bags(),
            .capacity = ids.count(),
            .hotness = hotness(),
            .offsets = offsets ? offsets->data() : nullptr,
            .bag_count = bag_count ? bag_count->data() : nullptr,
            .weights = weights ? weights->data() : nullptr,
            .default_id = default_id.value_or(-1)};
  }
};

namespace detail {

template <Runtime R>
auto reads_of(Bags<R> const& bags) {
  auto list = bags.ids.visit([](auto const& ids) { return reads(ids); });
  if (bags.offsets) {
    bags.offsets->visit([&](auto const& offsets) { list.add(offsets); });
  }
  if (bags.bag_count) {
    list.add(*bags.bag_count);
  }
  if (bags.weights) {
    list.add(*bags.weights);
  }
  return list;
}

}  // namespace detail

}  // namespace msstream::ops
