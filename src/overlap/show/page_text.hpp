// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

/// The fixed parts of the page, which CMake takes from the files of src/overlap/page/.
namespace msstream::overlap::page {

[[nodiscard]] std::string_view style() noexcept;
[[nodiscard]] std::string_view body() noexcept;
/// Returns the page's script, in parts that belong together in their order.
[[nodiscard]] std::span<std::string_view const> script() noexcept;

}  // namespace msstream::overlap::page
