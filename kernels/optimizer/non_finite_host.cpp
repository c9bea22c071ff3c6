// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"
#include "optimizer/non_finite.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace msstream::ops::kernels {

void find_non_finite(HostStream stream, NonFiniteSearch const& search) {
  require_real_type("find_non_finite: values", search.dtype);
  stream.run([search] {
    if (!is_wanted(search)) {
      return;
    }
    if (search.is_last_input) {
      search.found[3] = 0;
    }
    auto const count = search.row_count == nullptr
                           ? search.count
                           : std::min(search.count, *search.row_count * search.width);
    with_real_type("find_non_finite: values", search.dtype, [&](auto type) {
      auto const* const values = static_cast<typename decltype(type)::type const*>(search.values);
      for (std::int64_t i = 0; i < count; ++i) {
        if (!std::isfinite(to_float(values[i]))) {
          *search.found =
              search.number << NonFiniteSearch::kElementBits | static_cast<std::uint64_t>(i);
          return;
        }
      }
    });
  });
}

}  // namespace msstream::ops::kernels
