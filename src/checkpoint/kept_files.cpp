// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/kept_files.hpp"

#include "checkpoint/data_plan.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <exception>
#include <system_error>
#include <utility>

namespace msstream::detail {

namespace {

constexpr std::string_view kFileEnd = ".safetensors";

/// Returns the step in a file's name; empty if the file is none of the name's checkpoints.
std::optional<std::int64_t> step_of_name(std::string_view file, std::string_view name) {
  if (!file.starts_with(name) || !file.ends_with(kFileEnd) ||
      file.size() <= name.size() + 1 + kFileEnd.size() || file[name.size()] != '-') {
    return std::nullopt;
  }
  auto const digits = file.substr(name.size() + 1, file.size() - name.size() - 1 - kFileEnd.size());
  std::int64_t step = -1;
  auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  bool const whole = error == std::errc{} && end == digits.data() + digits.size() && step >= 0;
  return whole ? std::optional(step) : std::nullopt;
}

std::int64_t sequence_of(checkpoint::SafetensorsFile const& file) {
  auto const found = file.metadata().find(kSequenceKey);
  std::int64_t sequence = 0;
  if (found != file.metadata().end()) {
    auto const& digits = found->second;
    std::from_chars(digits.data(), digits.data() + digits.size(), sequence);
  }
  return sequence;
}

}  // namespace

std::string file_name_of(std::string_view name, std::int64_t step) {
  return fmt::format("{}-{:09}{}", name, step, kFileEnd);
}

std::vector<KeptFile> kept_files(std::filesystem::path const& folder, std::string_view name) {
  std::vector<KeptFile> files;
  std::error_code absent;
  for (auto const& entry : std::filesystem::directory_iterator(folder, absent)) {
    auto const step = step_of_name(entry.path().filename().string(), name);
    if (!step) {
      continue;
    }
    KeptFile kept{entry.path(), *step, 0, std::nullopt, true};
    try {
      checkpoint::SafetensorsFile const file(kept.path);
      kept.metric = header_of(file).metric;
      kept.sequence = sequence_of(file);
      auto const best = file.metadata().find(kBestKey);
      kept.higher_is_better = best == file.metadata().end() || best->second != kLowest;
    } catch (std::system_error const&) {
      continue;                        // cannot be read now, and may be good, so it is left alone
    } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): counts as the oldest
    }
    files.push_back(std::move(kept));
  }
  std::ranges::sort(
      files, {}, [](KeptFile const& file) { return std::pair(file.sequence, file.step); });
  return files;
}

std::vector<std::size_t> best_files(std::vector<KeptFile> const& files,
                                    bool higher_is_better,
                                    std::size_t count) {
  std::vector<std::size_t> rated;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i].metric && std::isfinite(*files[i].metric)) {
      rated.push_back(i);
    }
  }
  std::ranges::stable_sort(rated, [&](std::size_t a, std::size_t b) {
    return higher_is_better ? *files[a].metric > *files[b].metric
                            : *files[a].metric < *files[b].metric;
  });
  rated.resize(std::min(rated.size(), count));
  return rated;
}

std::vector<KeptFile> superfluous_files(std::vector<KeptFile> const& files,
                                        checkpoint::WriterOptions const& options) {
  if (options.keep_last == 0) {
    return {};
  }
  auto const best =
      best_files(files, options.higher_is_better, static_cast<std::size_t>(options.keep_best));
  std::vector<KeptFile> superfluous;
  for (std::size_t i = 0; i < files.size(); ++i) {
    bool const is_recent = files.size() - i <= static_cast<std::size_t>(options.keep_last);
    if (!is_recent && std::ranges::find(best, i) == best.end()) {
      superfluous.push_back(files[i]);
    }
  }
  return superfluous;
}

}  // namespace msstream::detail

namespace msstream::checkpoint {

std::optional<std::filesystem::path> latest(std::filesystem::path const& folder,
                                            std::string_view name) {
  auto const files = detail::kept_files(folder, name);
  return files.empty() ? std::nullopt : std::optional(files.back().path);
}

std::optional<std::filesystem::path> best(std::filesystem::path const& folder,
                                          std::string_view name) {
  auto const files = detail::kept_files(folder, name);
  auto const found = detail::best_files(files, files.empty() || files.back().higher_is_better, 1);
  return found.empty() ? std::nullopt : std::optional(files[found.front()].path);
}

}  // namespace msstream::checkpoint
