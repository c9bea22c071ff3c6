// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/default_runtime.hpp>
#include <msstream/serve/detail/input_layout.hpp>
#include <msstream/stream/stream_group.hpp>
#include <msstream/tensor/detail/typed.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace msstream::serve {

/// The argument with which an InferencePool calls a model: a tensor for each field, all in one
/// piece of device memory, and stream groups for operations that do not depend on each other.
template <Runtime R = DefaultRuntime>
class Inputs;

/// The implementation of Inputs<R>, compiled once for all runtimes; Inputs<R> documents the
/// functions.
template <>
class Inputs<detail::AnyRuntime> {
 public:
  /// Makes the inputs of a launch. `branches` must outlive the object and its copies.
  Inputs(std::shared_ptr<InputLayout const> layout,
         detail::TensorOf<std::uint8_t> packed,
         std::int64_t rows,
         std::span<std::shared_ptr<detail::StreamGroup> const> branches)
      : layout_(std::move(layout)), packed_(std::move(packed)), rows_(rows), branches_(branches) {}

  [[nodiscard]] detail::AnyTensor get(std::string_view name, DType dtype) const;
  [[nodiscard]] detail::AnyTensor column(std::string_view name,
                                         std::int64_t number,
                                         DType dtype) const;
  [[nodiscard]] detail::AnyTensor by_width(std::string_view name, DType dtype) const;
  [[nodiscard]] detail::AnyTensor offsets(std::string_view name, DType dtype) const;
  /// Returns the number of rows of the bucket, the capacity in which the queries run. Rows beyond
  /// those of the queries hold rows of earlier queries, or zeros; their lists are empty.
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::shared_ptr<detail::StreamGroup> branch(std::size_t number) const;
  [[nodiscard]] std::shared_ptr<detail::DeviceState> const& device() const noexcept {
    return packed_.device();
  }

 private:
  /// Returns `count` elements of the inputs, from byte `begin` on.
  [[nodiscard]] detail::AnyTensor part(DType dtype, std::size_t begin, std::int64_t count) const;

  std::shared_ptr<InputLayout const> layout_;
  detail::TensorOf<std::uint8_t> packed_;
  std::int64_t rows_;
  std::span<std::shared_ptr<detail::StreamGroup> const> branches_;
};

template <Runtime R>
class Inputs : public Inputs<detail::AnyRuntime> {
  using Body = Inputs<detail::AnyRuntime>;

 public:
  /// Gives inputs the runtime type R, which must be that of their device. For use by the library
  /// only.
  explicit Inputs(Body const& inputs) : Body(inputs) {}

  /// Returns the tensor of a field: [rows, elements per row], [elements per row, rows] for a field
  /// of Field::Order::columns, or [rows * per_row] for a field of lists, whose elements beyond the
  /// last list are elements of earlier queries, or zeros. Throws std::invalid_argument if the pool
  /// has no field of this name and type.
  template <Element T>
  [[nodiscard]] Tensor<T, R> get(std::string_view name) const {
    return {detail::OfKnownType(), Body::get(name, dtype_of<T>)};
  }
  /// Return the tensor of a field of float or int64: [rows] if the field has one element a row, and
  /// otherwise as get(). So data::DeviceBatch gives its columns, and one function of a model takes
  /// both: the batches of a training, and the inputs of a pool. Throw as get().
  [[nodiscard]] Tensor<float, R> floats(std::string_view name) const {
    return {detail::OfKnownType(), Body::by_width(name, DType::float32)};
  }
  /// Returns an int64 input in the shape that a batch of a loader has: see floats().
  [[nodiscard]] Tensor<std::int64_t, R> ints(std::string_view name) const {
    return {detail::OfKnownType(), Body::by_width(name, DType::int64)};
  }
  /// Returns element `number` of every row of a field, [rows], as a view: one of several keys, for
  /// example. Throws std::invalid_argument if the pool has no field of this name and type, if the
  /// field's order is not Field::Order::columns, and unless `number` is in [0, elements per row).
  template <Element T>
  [[nodiscard]] Tensor<T, R> column(std::string_view name, std::int64_t number) const {
    return {detail::OfKnownType(), Body::column(name, number, dtype_of<T>)};
  }
  /// Returns the offsets of a field of lists, [rows + 1], ascending: row i has the elements
  /// [offsets[i], offsets[i + 1]) of get(), as ops::Bags and the operations of ops/jagged.hpp take
  /// them. Rows beyond those of the queries have empty lists.
  ///
  /// Lists of int32 have their offsets as `offsets<std::int32_t>(name)` too, because ops::Bags
  /// takes ids and offsets of one type. Neither form launches anything.
  ///
  /// Throws std::invalid_argument if the pool has no field of this name, if the field's order is
  /// not Field::Order::lists, and for offsets of int32 of lists that have no elements of int32.
  template <Element T = std::int64_t>
    requires(dtype_of<T> == DType::int64 || dtype_of<T> == DType::int32)
  [[nodiscard]] Tensor<T, R> offsets(std::string_view name) const {
    return {detail::OfKnownType(), Body::offsets(name, dtype_of<T>)};
  }
  /// Returns a group for operations that other operations need not wait for, as in `StreamScope
  /// scope(inputs.branch(i));`. A number beyond the replica's groups wraps around; number 0 is the
  /// current group.
  [[nodiscard]] StreamGroup<R> branch(std::size_t number) const {
    return StreamGroup<R>(Body::branch(number));
  }
};

}  // namespace msstream::serve

namespace msstream::detail {

using AnyInputs = serve::Inputs<AnyRuntime>;

}  // namespace msstream::detail
