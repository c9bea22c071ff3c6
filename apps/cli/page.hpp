// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

/// The pages of the documentation that messages of tools name.
namespace msstream::cli {

/// Returns where a page such as `docs/doctor.md` is: its path if it was installed with the program
/// or by the Debian package of the headers, otherwise its name, which is its place in the sources.
[[nodiscard]] std::string page_path(std::string_view page);

/// Returns where a page is, for a program in the given folder.
[[nodiscard]] std::string page_path(std::string_view page, std::filesystem::path const& programs);

}  // namespace msstream::cli
