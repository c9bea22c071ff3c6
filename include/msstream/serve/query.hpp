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

/// An input of a model: a fixed number of elements for each row of a query, or a list of any
/// length.
struct Field {
  /// The order of the elements on the device. Queries have them row after row in any case.
  enum class Order : std::uint8_t {
    rows,     ///< row after row: Inputs::get() has the shape [rows, elements per row]
    columns,  ///< element after element: each Inputs::column() is a tensor [rows]
    /// list after list, one list of any length for each row: Inputs::get() has the shape [rows of
    /// the bucket * per_row], and Inputs::offsets() says where the lists begin and end
    lists,
  };

  std::string name;  ///< by which the model finds its values
  DType dtype;       ///< of the elements, on the device and in queries
  /// The number of elements of each row. For Order::lists, the number for which a bucket has room
  /// for each of its rows: the lists of a launch have at most rows of the bucket * per_row elements
  /// together.
  std::int64_t per_row;
  Order order = Order::rows;  ///< of the elements on the device
  /// For Order::lists: the name of a field of lists in front of this one whose lists have the same
  /// lengths, such as the ids to which this field has weights. Queries give no offsets for this
  /// field then, and Inputs::offsets() returns those of the other field.
  std::string offsets_of = {};
};

/// Makes a Field with elements of type T, as in `field<std::int64_t>("keys", 104)`.
template <Element T>
[[nodiscard]] Field field(std::string name,
                          std::int64_t per_row,
                          Field::Order order = Field::Order::rows) {
  return {std::move(name), dtype_of<T>, per_row, order};
}

/// Makes a Field of lists, as in `jagged_field<std::int64_t>("history", 50)`, with room for
/// `per_row` elements for each row of a bucket; see Field for `offsets_of`.
template <Element T>
[[nodiscard]] Field jagged_field(std::string name,
                                 std::int64_t per_row,
                                 std::string offsets_of = {}) {
  return {std::move(name), dtype_of<T>, per_row, Field::Order::lists, std::move(offsets_of)};
}

/// The clock of deadlines.
using Clock = std::chrono::steady_clock;

/// A request to an InferencePool, such as `{.rows = 3, .values = {keys, dense}}`. The memory that
/// `values` refers to must stay valid until submit() returns, and no longer.
struct Query {
  /// The priority of a waiting query over other waiting queries.
  enum class Priority : std::uint8_t { low, normal, high };

  /// A view of a query's elements of one field, row after row, in memory that the caller owns. A
  /// field of lists has offsets [rows + 1], too: row i has the elements [offsets[i], offsets[i +
  /// 1]). The first offset is 0, they never descend, and the last is the number of elements. A
  /// query of one row, which has one list, may leave the offsets out.
  struct FieldValues {
    FieldValues() = default;
    /// Views the elements, whose number is the rows times Field::per_row; for lists, with their
    /// offsets.
    template <Element T>
    FieldValues(std::span<T const> values) noexcept  // NOLINT(google-explicit-constructor)
        : data(values.data()), count(values.size()), dtype(dtype_of<T>) {}
    template <Element T>
    FieldValues(std::vector<T> const& values) noexcept  // NOLINT(google-explicit-constructor)
        : FieldValues(std::span<T const>(values)) {}
    template <Element T>
    FieldValues(std::span<T const> values, std::span<std::int64_t const> list_offsets) noexcept
        : data(values.data()), count(values.size()), dtype(dtype_of<T>), offsets(list_offsets) {}
    template <Element T>
    FieldValues(std::vector<T> const& values, std::span<std::int64_t const> list_offsets) noexcept
        : FieldValues(std::span<T const>(values), list_offsets) {}

    void const* data = nullptr;                  ///< the first element
    std::size_t count = 0;                       ///< the number of elements
    DType dtype = DType::uint8;                  ///< of the elements; must be the field's
    std::span<std::int64_t const> offsets = {};  ///< of lists; empty if there are none
  };

  /// The values of all fields, in the order of InferencePoolOptions::inputs. Up to eight fields
  /// need no allocation.
  class Values : public detail::InlineVector<FieldValues, 8> {
   public:
    Values() = default;
    /// Takes a view for each field.
    Values(std::initializer_list<FieldValues> values) {
      for (auto const& of_field : values) {
        push_back(of_field);
      }
    }
  };

  std::int64_t rows = 1;  ///< at least 1, at most the largest bucket
  Values values = {};
  Priority priority = Priority::normal;  ///< over other waiting queries
  /// The time until which the query may wait: if it has not been launched by then, its outcome is
  /// DeadlineExceeded. A launched query gets its answer, however late.
  Clock::time_point deadline = Clock::time_point::max();
};

}  // namespace msstream::serve
