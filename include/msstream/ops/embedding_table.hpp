// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/pooling.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <variant>

namespace msstream::ops {

/// One of many tables that are looked up together: its weights [rows, width] and the pooling of its
/// bags.
template <Runtime R = DefaultRuntime>
struct EmbeddingTable {
  std::variant<Tensor<float, R>, Tensor<float16, R>, Tensor<bfloat16, R>> weights;
  Pooling pooling = Pooling::sum;  ///< any pooling except none
  std::int64_t hotness = 1;        ///< ids per bag if the lookup has no offsets
  /// The id that a bag without a valid id holds instead. Null if such a bag is 0.
  std::optional<std::int64_t> default_id = {};

  /// For the library itself: the same table, on a device of whichever runtime.
  operator EmbeddingTable<detail::AnyRuntime>() const  // NOLINT(google-explicit-constructor)
      requires(!std::same_as<R, detail::AnyRuntime>) {
    using Weights = decltype(EmbeddingTable<detail::AnyRuntime>::weights);
    return {std::visit([]<Element T>(
                           Tensor<T, R> const& of) -> Weights { return detail::TensorOf<T>(of); },
                       weights),
            pooling,
            hotness,
            default_id};
  }
};

namespace detail {

template <Runtime R>
[[nodiscard]] EmbeddingTable<R> typed(EmbeddingTable<AnyRuntime> const& table) {
  using Weights = decltype(EmbeddingTable<R>::weights);
  return {std::visit([]<Element T>(TensorOf<T> const& of) -> Weights { return typed<R>(of); },
                     table.weights),
          table.pooling,
          table.hotness,
          table.default_id};
}

}  // namespace detail

}  // namespace msstream::ops
