// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

namespace msstream::support {

/// Bytes from the first to the last, decompressed.
class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(ByteSource const&) = delete;
  ByteSource& operator=(ByteSource const&) = delete;
  virtual ~ByteSource() = default;

  /// Reads at least one and up to `bytes` bytes, or returns 0 at the end. Throws DataError.
  virtual std::size_t read(char* out, std::size_t bytes) = 0;
};

/// Opens a file or pipe; one that begins with gzip's magic number is inflated. Throws DataError.
[[nodiscard]] std::unique_ptr<ByteSource> open_bytes(std::filesystem::path const& path);

}  // namespace msstream::support
