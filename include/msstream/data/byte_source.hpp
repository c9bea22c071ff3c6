// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace msstream::data {

/// A sequential source of bytes, decompressed if necessary.
class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(ByteSource const&) = delete;
  ByteSource& operator=(ByteSource const&) = delete;
  virtual ~ByteSource() = default;

  /// Reads up to `bytes` bytes, at least one, and returns their number; 0 at the end. Throws
  /// DataError.
  virtual std::size_t read(char* out, std::size_t bytes) = 0;

  /// Skips the next `bytes` bytes. Reads and discards them unless a derived class knows a faster
  /// way. Throws DataError, also if the source ends before.
  virtual void skip(std::int64_t bytes);
};

/// Opens a file or pipe. If it begins with gzip's magic number, it is inflated, by the shared
/// library libz.so.1, which is loaded then. Throws DataError.
[[nodiscard]] std::unique_ptr<ByteSource> open_bytes(std::filesystem::path const& path);

}  // namespace msstream::data
