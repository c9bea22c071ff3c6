// SPDX-License-Identifier: Apache-2.0
#include "overlap/read/nsight.hpp"

#ifdef MSSTREAM_HAS_SQLITE
#include "overlap/read/nsight_reader.hpp"
#endif

#include <fmt/core.h>

#include <chrono>
#include <stdexcept>

namespace msstream::overlap {

#ifdef MSSTREAM_HAS_SQLITE
std::vector<Recording> read_nsight(std::filesystem::path const& file, ReadOptions const& options) {
  if (!options.progress) {
    return NsightReader(file, {}).read();
  }
  auto const bytes = std::filesystem::file_size(file);
  auto told_at = std::chrono::steady_clock::time_point();
  // Rows are what is counted: the share of them that was read stands for that of the bytes.
  NsightReader reader(file, [&](std::int64_t rows, std::int64_t all_rows) {
    auto const now = std::chrono::steady_clock::now();
    if (now - told_at >= std::chrono::milliseconds(100)) {
      told_at = now;
      double const share =
          static_cast<double>(rows) / static_cast<double>(std::max<std::int64_t>(all_rows, 1));
      options.progress(static_cast<std::size_t>(std::min(share, 1.0) * static_cast<double>(bytes)),
                       bytes);
    }
  });
  auto recordings = reader.read();
  options.progress(bytes, bytes);
  return recordings;
}
#else
std::vector<Recording> read_nsight(std::filesystem::path const& file, ReadOptions const&) {
  throw std::runtime_error(fmt::format(
      "{}: a SQLite database, and this build of msstream has no SQLite: install libsqlite3-dev "
      "and build again",
      file.string()));
}
#endif

}  // namespace msstream::overlap
