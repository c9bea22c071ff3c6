// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/checkpoint/writer.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::detail {

/// A checkpoint in the folder of a Writer.
struct KeptFile {
  std::filesystem::path path;
  std::int64_t step;
  std::int64_t sequence;  ///< larger than those of all files that were written before
  std::optional<double> metric;
  bool higher_is_better;
};

/// Returns the name of a checkpoint's file.
[[nodiscard]] std::string file_name_of(std::string_view name, std::int64_t step);

/// Returns the checkpoints `<name>-<step>.safetensors` of a folder in the order in which they were
/// written. A file whose header cannot be read counts as older than all others, and has no metric.
[[nodiscard]] std::vector<KeptFile> kept_files(std::filesystem::path const& folder,
                                               std::string_view name);

/// Returns the indices of the `count` files with the best metrics, the best first. Metrics that are
/// not finite do not count. Of files with equal metrics, the one that was written first is better.
[[nodiscard]] std::vector<std::size_t> best_files(std::vector<KeptFile> const& files,
                                                  bool higher_is_better,
                                                  std::size_t count);

/// Returns the files that the options do not keep. The file that was written last is always kept.
[[nodiscard]] std::vector<KeptFile> superfluous_files(std::vector<KeptFile> const& files,
                                                      checkpoint::WriterOptions const& options);

}  // namespace msstream::detail
