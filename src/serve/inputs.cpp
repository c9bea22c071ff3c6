// SPDX-License-Identifier: Apache-2.0
#include "memory/device/device_state.hpp"

#include <msstream/serve/inputs.hpp>

namespace msstream::serve {

detail::AnyTensor Inputs<detail::AnyRuntime>::get(std::string_view name, DType dtype) const {
  auto const field = layout_->find(name, dtype);
  auto const per_row = layout_->fields()[field].per_row;
  auto const begin = static_cast<std::int64_t>(layout_->offset(field, rows_) / bytes_of(dtype));
  auto const all = static_cast<std::int64_t>(packed_.bytes() / bytes_of(dtype));
  return detail::AnyTensor(packed_.block(), dtype, Shape{all})
      .rows(begin, begin + rows_ * per_row)
      .reshaped({rows_, per_row});
}

std::shared_ptr<detail::StreamGroup> Inputs<detail::AnyRuntime>::branch(std::size_t number) const {
  return branches_.empty() ? device()->current_group().shared_from_this()
                           : branches_[number % branches_.size()];
}

}  // namespace msstream::serve
