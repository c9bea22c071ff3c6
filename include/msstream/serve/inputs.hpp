// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/input_layout.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace msstream::serve {

/// What a model is called with: a tensor a field, all in one piece of device memory.
template <Runtime R>
class Inputs {
 public:
  Inputs(std::shared_ptr<InputLayout const> layout,
         Tensor<std::uint8_t, R> packed,
         std::int64_t rows)
      : layout_(std::move(layout)), packed_(std::move(packed)), rows_(rows) {}

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
  [[nodiscard]] std::shared_ptr<DeviceState<R>> const& device() const noexcept {
    return packed_.device();
  }

 private:
  std::shared_ptr<InputLayout const> layout_;
  Tensor<std::uint8_t, R> packed_;
  std::int64_t rows_;
};

}  // namespace msstream::serve
