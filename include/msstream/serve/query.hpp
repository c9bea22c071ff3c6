// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/inline_vector.hpp>
#include <msstream/base/dtype.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace msstream::serve {

/// An input of a model, with a fixed number of elements for each row of a query.
struct Field {
  /// The order of the elements on the device. Queries have them row after row in any case.
  enum class Order : std::uint8_t {
    rows,     ///< row after row: Inputs::get() has the shape [rows, elements per row]
    columns,  ///< element after element: each Inputs::column() is a tensor [rows]
  };

  std::string name;
  DType dtype;
  std::int64_t per_row;
  Order order = Order::rows;
};

/// Makes a Field with elements of type T, as in `field<std::int64_t>("keys", 104)`.
template <Element T>
[[nodiscard]] Field field(std::string name,
                          std::int64_t per_row,
                          Field::Order order = Field::Order::rows) {
  return {std::move(name), dtype_of<T>, per_row, order};
}

using Clock = std::chrono::steady_clock;

/// A request to an InferencePool, such as `{.rows = 3, .values = {keys, dense}}`. The memory that
/// `values` refers to must stay valid until submit() returns, and no longer.
struct Query {
  /// The priority of a waiting query over other waiting queries.
  enum class Priority : std::uint8_t { low, normal, high };

  /// A view of a query's elements of one field, row after row, in memory that the caller owns.
  struct FieldValues {
    FieldValues() = default;
    template <Element T>
    FieldValues(std::span<T const> values) noexcept  // NOLINT(google-explicit-constructor)
        : data(values.data()), count(values.size()), dtype(dtype_of<T>) {}
    template <Element T>
    FieldValues(std::vector<T> const& values) noexcept  // NOLINT(google-explicit-constructor)
        : FieldValues(std::span<T const>(values)) {}

    void const* data = nullptr;
    std::size_t count = 0;
    DType dtype = DType::uint8;
  };

  /// The values of all fields, in the order of InferencePoolOptions::inputs. Up to eight fields
  /// need no allocation.
  class Values : public detail::InlineVector<FieldValues, 8> {
   public:
    Values() = default;
    Values(std::initializer_list<FieldValues> values) {
      for (auto const& of_field : values) {
        push_back(of_field);
      }
    }
  };

  std::int64_t rows = 1;
  Values values = {};
  Priority priority = Priority::normal;
  /// The time until which the query may wait: if it has not been launched by then, its outcome is
  /// DeadlineExceeded. A launched query gets its answer, however late.
  Clock::time_point deadline = Clock::time_point::max();
};

}  // namespace msstream::serve
