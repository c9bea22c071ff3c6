// SPDX-License-Identifier: Apache-2.0
#include "memory/device/device_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/serve/inputs.hpp>

namespace msstream::serve {

detail::AnyTensor Inputs<detail::AnyRuntime>::get(std::string_view name, DType dtype) const {
  auto const field = layout_->find(name, dtype);
  auto const per_row = layout_->fields()[field].per_row;
  bool const by_rows = layout_->fields()[field].order == Field::Order::rows;
  auto const begin = static_cast<std::int64_t>(layout_->offset(field, rows_) / bytes_of(dtype));
  auto const all = static_cast<std::int64_t>(packed_.bytes() / bytes_of(dtype));
  return detail::AnyTensor(packed_.block(), dtype, Shape{all})
      .rows(begin, begin + rows_ * per_row)
      .reshaped(by_rows ? Shape{rows_, per_row} : Shape{per_row, rows_});
}

detail::AnyTensor Inputs<detail::AnyRuntime>::column(std::string_view name,
                                                     std::int64_t number,
                                                     DType dtype) const {
  auto const& field = layout_->fields()[layout_->find(name, dtype)];
  require(field.order == Field::Order::columns,
          "serve: column {} of input '{}', whose elements lie row after row; expected a field of "
          "Field::Order::columns",
          number,
          name);
  require(number >= 0 && number < field.per_row,
          "serve: column {} of input '{}'; expected one in [0, {})",
          number,
          name,
          field.per_row);
  return get(name, dtype).rows(number, number + 1).reshaped({rows_});
}

std::shared_ptr<detail::StreamGroup> Inputs<detail::AnyRuntime>::branch(std::size_t number) const {
  return branches_.empty() ? device()->current_group().shared_from_this()
                           : branches_[number % branches_.size()];
}

}  // namespace msstream::serve
