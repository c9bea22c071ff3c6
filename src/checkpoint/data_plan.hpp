// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/tensor_header.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/checkpoint/tensors.hpp>
#include <msstream/order/position.hpp>
#include <msstream/tensor/detail/any_pinned_array.hpp>
#include <msstream/tensor/detail/any_uses.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

namespace msstream::detail {

/// A copy of bytes between two addresses.
struct ByteCopy {
  void* to;
  void const* from;
  std::size_t bytes;
};

/// Issues the copies as one operation, which reads and writes what the two lists name, on the
/// group's stream for the direction.
order::Position issue_copies(char const* name,
                             CopyKind kind,
                             AnyUses const& read,
                             AnyUses const& written,
                             std::vector<ByteCopy> copies,
                             DeviceState const& device,
                             std::source_location issued_at);

/// The data of a safetensors file: the bytes of the tensors, one after the other, in the order of
/// the file. In front of them are arrays of the host, which are multiples of 8 bytes, so that they
/// do not change how tensors are aligned; they are written apart, and positions do not count them.
///
/// Device memory of a limited size, the staging memory, can hold the last bytes of the data: the
/// tensors from the last one backwards, each at an address that is a multiple of kAlignment. Of the
/// first of them, only the end may be in it.
class DataPlan {
 public:
  static constexpr std::uint64_t kAlignment = 256;

  /// `staging_bytes` limits the staging memory.
  explicit DataPlan(checkpoint::Tensors const& tensors, std::uint64_t staging_bytes = 0);

  [[nodiscard]] std::uint64_t bytes() const noexcept { return begins_.back(); }
  /// Returns the number of bytes at the beginning of the data that are not staged.
  [[nodiscard]] std::uint64_t unstaged_bytes() const noexcept { return unstaged_; }
  /// Returns the bytes of staging memory that the plan needs, at most the limit.
  [[nodiscard]] std::uint64_t staging_bytes() const noexcept { return staging_bytes_; }
  [[nodiscard]] std::shared_ptr<DeviceState> const& device() const noexcept {
    return tensors_.front().device();
  }
  [[nodiscard]] bool empty() const noexcept { return tensors_.empty(); }

  /// Returns the beginning of the file.
  [[nodiscard]] std::string file_header(checkpoint::Metadata const& metadata) const {
    return lay_out(entries_, metadata).header;
  }

  /// Writes the arrays of the host, which follow the beginning of the file.
  void write_host_arrays(OutputFile& file) const;

  /// Copies the ends of tensors that the plan stages to the staging memory, on the compute stream.
  void stage(AnyTensor const& staging, std::source_location issued_at) const;
  /// Copies the bytes [begin, end) of the data to pinned memory, on the d2h stream: from the
  /// staging memory, if there is one, otherwise from the tensors. The range lies in the unstaged or
  /// in the staged part.
  order::Position download(std::uint64_t begin,
                           std::uint64_t end,
                           AnyTensor const* staging,
                           AnyPinnedArray const& to,
                           std::source_location issued_at) const;

 private:
  std::vector<TensorEntry> entries_;
  std::vector<HostState::Array> host_arrays_;  ///< in the order of the file
  std::vector<AnyTensor> tensors_;             ///< likewise
  std::vector<std::uint64_t> begins_;  ///< of each tensor in the data, and the end of the data
  /// For each tensor, the first of its bytes that is staged, and where the staging memory has it.
  struct Staged {
    std::uint64_t from;
    std::uint64_t at;
  };
  std::vector<Staged> staged_;
  std::uint64_t unstaged_;
  std::uint64_t staging_bytes_;
};

/// A size of pinned memory, as chunks through which data is copied.
struct ChunkSizes {
  static constexpr std::uint64_t kLargest = std::uint64_t{16} << 20U;

  std::size_t chunk_bytes;
  std::size_t chunks;

  /// Divides `pinned_bytes`, at least 1 KiB, into chunks for `data_bytes`.
  [[nodiscard]] static ChunkSizes of(std::uint64_t pinned_bytes, std::uint64_t data_bytes) {
    auto const largest = std::min(kLargest, pinned_bytes / 4);
    auto const chunk = std::clamp<std::uint64_t>(data_bytes, 1, largest);
    auto const needed = std::max<std::uint64_t>((data_bytes + chunk - 1) / chunk, 1);
    return {static_cast<std::size_t>(chunk),
            static_cast<std::size_t>(std::min(pinned_bytes / chunk, needed))};
  }
};

/// Returns the texts of a file for a header: its own, and the library's. Throws
/// std::invalid_argument for a reserved name, for text that is not UTF-8 and for too much text.
[[nodiscard]] checkpoint::Metadata metadata_of(checkpoint::Header header);
/// Returns the header that a file has. Throws std::invalid_argument if it is not one that
/// metadata_of() can have made.
[[nodiscard]] checkpoint::Header header_of(checkpoint::SafetensorsFile const& file);

/// The name of the text that says in which order a Writer has written the files of a folder.
inline constexpr char const* kSequenceKey = "sequence";
/// The name of the text of a Writer's files that says which metric is the best.
inline constexpr char const* kBestKey = "best";
inline constexpr char const* kHighest = "highest";
inline constexpr char const* kLowest = "lowest";

/// Throws std::logic_error, with `call` in its message, in a capture on the device and inside the
/// work of a stream, and if the device belongs to the parent of this process.
void require_outside_capture(DeviceState const& device, char const* call);

}  // namespace msstream::detail
