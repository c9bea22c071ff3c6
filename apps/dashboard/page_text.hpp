// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace msstream::dashboard {

/// A file of page/, which the build turns into a text.
struct PageFile {
  std::string_view path;  ///< at which the server has it
  char const* content_type;
  std::string_view text;
};

[[nodiscard]] std::span<PageFile const> page_files() noexcept;

}  // namespace msstream::dashboard
