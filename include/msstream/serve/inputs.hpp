// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/default_runtime.hpp>
#include <msstream/serve/input_layout.hpp>
#include <msstream/stream/stream_group.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace msstream::serve {

/// What a model is called with: a tensor a field, all in one piece of device memory, and stream
/// groups for what does not depend on each other.
template <Runtime R = DefaultRuntime>
class Inputs {
 public:
  Inputs(std::shared_ptr<InputLayout const> layout,
         Tensor<std::uint8_t, R> packed,
         std::int64_t rows,
         std::span<StreamGroup<R>* const> branches = {})
      : layout_(std::move(layout)), packed_(std::move(packed)), rows_(rows), branches_(branches) {}

  /// [rows, elements a row]. Throws std::invalid_argument for a name or type that the pool has not.
  template <Element T>
  [[nodiscard]] Tensor<T, R> get(std::string_view name) const {
    auto const field = layout_->find(name, dtype_of<T>);
    auto const per_row = layout_->fields()[field].per_row;
    auto const begin = static_cast<std::int64_t>(layout_->offset(field, rows_) / sizeof(T));
    auto const all = static_cast<std::int64_t>(packed_.bytes() / sizeof(T));
    return Tensor<T, R>(packed_.block(), Shape{all})
        .rows(begin, begin + rows_ * per_row)
        .reshaped({rows_, per_row});
  }
  /// Of the bucket: those beyond the queries' own hold rows of earlier queries, or zeros.
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  /// A group for operations that others need not wait for: `StreamScope scope(inputs.branch(i));`.
  /// Numbers beyond the groups that the replica has go round; the first one is the current group.
  [[nodiscard]] StreamGroup<R>& branch(std::size_t number) const {
    return branches_.empty() ? device()->current_group() : *branches_[number % branches_.size()];
  }
  [[nodiscard]] std::shared_ptr<DeviceState<R>> const& device() const noexcept {
    return packed_.device();
  }

 private:
  std::shared_ptr<InputLayout const> layout_;
  Tensor<std::uint8_t, R> packed_;
  std::int64_t rows_;
  std::span<StreamGroup<R>* const> branches_;
};

}  // namespace msstream::serve
