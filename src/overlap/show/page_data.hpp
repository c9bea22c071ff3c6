// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/show/page.hpp"

#include <string>

namespace msstream::overlap {

/// The data of one report in the page.
struct PageData {
  std::string description;  ///< JSON, without the character `<`
  std::string columns;      ///< the numbers of PageColumns, in base64
};

[[nodiscard]] PageData page_data(Explained const& explained, PageOptions const& options);

}  // namespace msstream::overlap
