// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/read/read.hpp"

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::overlap {

/// The bytes of a file in pieces, decompressed if the file is gzipped. Members of gzip that follow
/// each other are read as one.
///
/// Throws std::runtime_error that names the file if it cannot be read, is a folder, or is damaged
/// or truncated gzip.
class ByteSource {
 public:
  explicit ByteSource(std::filesystem::path const& file, ReadOptions const& options = {});
  ByteSource(ByteSource const&) = delete;
  ByteSource& operator=(ByteSource const&) = delete;
  ~ByteSource();

  /// Returns the next piece, which is empty at the end only. It is valid until the next call. A
  /// byte order mark of UTF-8 at the begin is left out.
  [[nodiscard]] std::string_view next();
  /// Returns the first bytes of the file as they are stored, at most 16; they stay to be read.
  [[nodiscard]] std::string_view magic() const noexcept;
  [[nodiscard]] std::string const& name() const noexcept { return name_; }
  [[nodiscard]] bool is_gzipped() const noexcept { return inflate_ != nullptr; }
  /// Returns the size of the file in bytes, as stored.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  struct Inflate;

  std::size_t fill();
  [[nodiscard]] std::string_view next_piece();
  [[nodiscard]] std::string_view next_inflated();
  void tell_progress(bool at_end);
  [[noreturn]] void fail(std::string_view problem) const;

  std::string name_;
  std::function<void(std::size_t, std::size_t)> progress_;
  std::chrono::steady_clock::time_point told_at_;
  bool has_begun_ = false;
  int file_ = -1;
  std::size_t size_ = 0;
  std::size_t done_ = 0;
  std::vector<char> stored_;  ///< bytes as they are in the file
  std::size_t stored_begin_ = 0;
  std::size_t stored_end_ = 0;
  std::unique_ptr<Inflate> inflate_;
};

}  // namespace msstream::overlap
