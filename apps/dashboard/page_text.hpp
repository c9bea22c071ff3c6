// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msstream::dashboard {

// The files of page/, which the build turns into texts.
[[nodiscard]] std::string_view page_html() noexcept;
[[nodiscard]] std::string_view page_css() noexcept;
[[nodiscard]] std::string_view page_js() noexcept;

}  // namespace msstream::dashboard
