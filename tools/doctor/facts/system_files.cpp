// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts/system_files.hpp"

#include <charconv>
#include <cstddef>
#include <fstream>
#include <sstream>
#include <system_error>

namespace msstream::doctor {
namespace fs = std::filesystem;

std::string text_of_file(fs::path const& file) {
  constexpr std::size_t kMost = std::size_t{4} << 20U;
  std::ifstream in(file, std::ios::binary);
  std::string text;
  char block[4096];
  while (in && text.size() < kMost) {
    in.read(block, sizeof(block));
    text.append(block, static_cast<std::size_t>(in.gcount()));
  }
  return text;
}

std::optional<std::uint64_t> number_of_file(fs::path const& file) {
  auto const text = text_of_file(file);
  std::uint64_t number = 0;
  auto const read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc{} ? std::optional(number) : std::nullopt;
}

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; in >> word;) {
    words.push_back(std::move(word));
  }
  return words;
}

std::string value_after(std::string_view text, std::string_view key) {
  constexpr std::string_view kBetween = " \t:=";
  while (!text.empty()) {
    auto const end = text.find('\n');
    auto line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.starts_with(key)) {
      continue;
    }
    line.remove_prefix(key.size());
    auto const begin = line.find_first_not_of(kBetween);
    if (begin == 0 && !line.empty()) {
      continue;  // a longer key
    }
    return begin == std::string_view::npos
               ? std::string()
               : std::string(line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin));
  }
  return {};
}

std::vector<fs::path> control_groups(fs::path const& root, std::string_view controller) {
  fs::path const base = root / "sys/fs/cgroup";
  std::istringstream groups(text_of_file(root / "proc/self/cgroup"));
  fs::path top;
  std::string own;
  // A line has the number of the hierarchy, its controllers apart by commas, and the group's path.
  for (std::string line; std::getline(groups, line);) {
    auto const first = line.find(':');
    auto const second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    auto const controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    bool const is_version_2 = controllers == ",,";
    bool const is_asked =
        controllers.find("," + std::string(controller) + ",") != std::string::npos;
    std::error_code ignored;
    if (is_asked ||
        (is_version_2 && top.empty() && fs::exists(base / "cgroup.controllers", ignored))) {
      top = is_asked ? base / controller : base;
      own = line.substr(second + 1);
    }
  }
  if (top.empty()) {
    return {};
  }
  std::vector<fs::path> folders;
  // In a container the path is often that of the host, and the folder does not exist.
  for (fs::path part = fs::path(own).relative_path(); !part.empty(); part = part.parent_path()) {
    std::error_code ignored;
    if (fs::is_directory(top / part, ignored)) {
      folders.push_back(top / part);
    }
  }
  folders.push_back(top);
  return folders;
}

}  // namespace msstream::doctor
