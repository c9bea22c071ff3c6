// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace msstream::overlap::record {

/// The buffers that CUPTI writes its records to. Their number is limited: if all of them wait to be
/// written, CUPTI gets none and drops records, so that the program never waits for the file. For
/// use by any thread.
class Buffers {
 public:
  /// Small enough to be full soon: CUPTI hands over no buffer with work that is not finished,
  /// unless it is full.
  static constexpr std::size_t kBytes = std::size_t{1} << 18U;

  struct Filled {
    std::uint8_t* data = nullptr;
    std::size_t valid_bytes = 0;
  };

  /// `bytes` are those of each buffer.
  explicit Buffers(std::size_t limit_bytes, std::size_t bytes = kBytes);
  Buffers(Buffers const&) = delete;
  Buffers& operator=(Buffers const&) = delete;

  /// Returns an empty buffer of zeros; nullptr at the limit, or without memory.
  [[nodiscard]] std::uint8_t* request() noexcept;
  /// Keeps a filled buffer for take(); returns how many bytes wait now.
  std::size_t complete(std::uint8_t* data, std::size_t valid_bytes) noexcept;
  /// Returns the filled buffers, oldest first.
  [[nodiscard]] std::vector<Filled> take();
  /// Makes a buffer of take() available again.
  void give_back(Filled buffer);
  /// Makes some empty buffers ahead, so that the program's threads need not.
  void make_ahead();
  /// Frees the empty buffers.
  void free_empty();

  [[nodiscard]] std::size_t limit_bytes() const noexcept { return limit_ * bytes_; }
  /// The size of each buffer.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Whether half of what the limit allows waits for take().
  [[nodiscard]] bool is_half_full() const;
  [[nodiscard]] std::uint64_t refusals() const;
  /// The largest number of bytes in buffers so far.
  [[nodiscard]] std::size_t most_bytes() const;

 private:
  std::size_t bytes_;
  mutable std::mutex mutex_;
  std::size_t limit_;
  std::size_t count_ = 0;
  std::uint64_t refusals_ = 0;
  std::size_t filled_bytes_ = 0;
  std::vector<std::uint8_t*> empty_;
  std::vector<Filled> filled_;
};

}  // namespace msstream::overlap::record
