// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/base/format.hpp>

#include <fmt/core.h>

#include <utility>

namespace msstream {

/// Throws std::invalid_argument unless `holds`. The message is formatted only then.
template <class First, class... Rest>
void require(bool holds, fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
  if (!holds) [[unlikely]] {
    detail::throw_invalid_argument(
        fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
}

}  // namespace msstream
