// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>

#include <cstdint>
#include <string>
#include <utility>

namespace msstream::serve {

/// An input of a model, with a fixed number of elements for each row of a query.
struct Field {
  std::string name;
  DType dtype;
  std::int64_t per_row;
};

/// Makes a Field with elements of type T, as in `field<std::int64_t>("keys", 104)`.
template <Element T>
[[nodiscard]] Field field(std::string name, std::int64_t per_row) {
  return {std::move(name), dtype_of<T>, per_row};
}

}  // namespace msstream::serve
