// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>

#include <cstdint>
#include <string>
#include <utility>

namespace msstream::serve {

/// One of the inputs of a model: so many elements for each row of a query.
struct Field {
  std::string name;
  DType dtype;
  std::int64_t per_row;
};

/// `field<std::int64_t>("keys", 104)`.
template <Element T>
[[nodiscard]] Field field(std::string name, std::int64_t per_row) {
  return {std::move(name), dtype_of<T>, per_row};
}

}  // namespace msstream::serve
