// SPDX-License-Identifier: Apache-2.0
#include "memory/device/device_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/serve/inputs.hpp>

namespace msstream::serve {

detail::AnyTensor Inputs<detail::AnyRuntime>::get(std::string_view name, DType dtype) const {
  auto const field = layout_->find(name, dtype);
  auto const per_row = layout_->fields()[field].per_row;
  auto const elements = part(dtype, layout_->offset(field, rows_), rows_ * per_row);
  switch (layout_->fields()[field].order) {
    case Field::Order::rows:
      return elements.reshaped({rows_, per_row});
    case Field::Order::columns:
      return elements.reshaped({per_row, rows_});
    case Field::Order::lists:
      break;
  }
  return elements;
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

detail::AnyTensor Inputs<detail::AnyRuntime>::by_width(std::string_view name, DType dtype) const {
  auto const& field = layout_->fields()[layout_->find(name, dtype)];
  auto const elements = get(name, dtype);
  return field.per_row == 1 ? elements.reshaped({rows_}) : elements;
}

detail::AnyTensor Inputs<detail::AnyRuntime>::offsets(std::string_view name, DType dtype) const {
  return part(
      dtype, layout_->begin_of_offsets(layout_->find_lists(name, dtype), rows_, dtype), rows_ + 1);
}

detail::AnyTensor Inputs<detail::AnyRuntime>::part(DType dtype,
                                                   std::size_t begin,
                                                   std::int64_t count) const {
  auto const all = static_cast<std::int64_t>(packed_.bytes() / bytes_of(dtype));
  auto const first = static_cast<std::int64_t>(begin / bytes_of(dtype));
  return detail::AnyTensor(packed_.block(), dtype, Shape{all}).rows(first, first + count);
}

std::shared_ptr<detail::StreamGroup> Inputs<detail::AnyRuntime>::branch(std::size_t number) const {
  return branches_.empty() ? device()->current_group().shared_from_this()
                           : branches_[number % branches_.size()];
}

}  // namespace msstream::serve
