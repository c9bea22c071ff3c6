// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Reads the small text files in which Linux describes a computer. `root` is `/`, and in tests a
/// folder with files of another computer.
namespace msstream::doctor {

/// Returns the text of a file, at most 4 MiB; empty if it cannot be read.
[[nodiscard]] std::string text_of_file(std::filesystem::path const& file);
/// Returns the number that a file begins with; nothing if it does not begin with one, such as the
/// `max` of control groups.
[[nodiscard]] std::optional<std::uint64_t> number_of_file(std::filesystem::path const& file);
/// Returns the words of a text, apart by white space.
[[nodiscard]] std::vector<std::string> words_of(std::string_view text);
/// Returns the rest of the first line that begins with `key`, without the `:` or `=` and the white
/// space around; empty if there is none.
[[nodiscard]] std::string value_after(std::string_view text, std::string_view key);
/// Returns the folders of a control-group hierarchy that limit this process, its own first and the
/// root of the hierarchy last: those of version 2, or of `controller` in version 1.
[[nodiscard]] std::vector<std::filesystem::path> control_groups(std::filesystem::path const& root,
                                                                std::string_view controller);

}  // namespace msstream::doctor
