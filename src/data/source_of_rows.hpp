// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/reader.hpp>
#include <msstream/data/string_key.hpp>

#include <fmt/core.h>
#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace msstream::data::detail {

/// Collects what Reader::source() returns: files, and options that decide what their rows are.
class SourceOfRows {
 public:
  /// Adds a file, which counts by its name without folders and its size. The size of what is no
  /// regular file is 0.
  void add_file(std::filesystem::path const& path) {
    std::error_code failed;
    auto const size = std::filesystem::is_regular_file(path, failed)
                          ? std::filesystem::file_size(path, failed)
                          : std::uintmax_t{0};
    auto const bytes = failed ? std::int64_t{0} : static_cast<std::int64_t>(size);
    ++source_.files;
    source_.bytes += bytes;
    add(path.filename().string());
    add(fmt::format("{}", bytes));
  }
  void add(std::string_view option) { text_ += fmt::format("{} {};", option.size(), option); }
  void add(std::vector<std::string> const& options) {
    for (auto const& option : options) {
      add(option);
    }
    add(fmt::format("{}", options.size()));
  }
  /// Adds numbers, characters and optional ones.
  template <class... Options>
  void add_options(Options const&... options) {
    (add(text_of(options)), ...);
  }

  [[nodiscard]] Reader::Source source() const {
    auto source = source_;
    source.hash = std::bit_cast<std::uint64_t>(string_key(text_));
    return source;
  }

 private:
  template <class Option>
  [[nodiscard]] static std::string text_of(Option const& option) {
    if constexpr (requires { option.has_value(); }) {
      return option ? fmt::format("{}", *option) : "null";
    } else {
      return fmt::format("{}", option);
    }
  }

  Reader::Source source_;
  std::string text_;
};

}  // namespace msstream::data::detail
