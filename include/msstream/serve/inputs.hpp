// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/default_runtime.hpp>
#include <msstream/serve/device_calls.hpp>
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

/// The argument of a model: a tensor for each field, all in one piece of device memory, and stream
/// groups for operations that do not depend on each other.
template <Runtime R = DefaultRuntime>
class Inputs {
 public:
  Inputs(std::shared_ptr<InputLayout const> layout,
         Tensor<std::uint8_t, R> packed,
         std::int64_t rows,
         std::span<StreamGroup<R> const> branches = {})
      : layout_(std::move(layout)), packed_(std::move(packed)), rows_(rows), branches_(branches) {}

  /// Returns the tensor of a field, of shape [rows, elements per row]. Throws std::invalid_argument
  /// if the pool has no field of this name and type.
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
  /// Returns the number of rows of the bucket. Rows beyond those of the queries hold rows of
  /// earlier queries, or zeros.
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  /// Returns a group for operations that other operations need not wait for, as in `StreamScope
  /// scope(inputs.branch(i));`. A number beyond the replica's groups wraps around; number 0 is the
  /// current group.
  [[nodiscard]] StreamGroup<R> branch(std::size_t number) const {
    return branches_.empty() ? StreamGroup<R>(current_group(*device()))
                             : branches_[number % branches_.size()];
  }
  [[nodiscard]] std::shared_ptr<detail::DeviceState> const& device() const noexcept {
    return packed_.device();
  }

 private:
  std::shared_ptr<InputLayout const> layout_;
  Tensor<std::uint8_t, R> packed_;
  std::int64_t rows_;
  std::span<StreamGroup<R> const> branches_;
};

}  // namespace msstream::serve
