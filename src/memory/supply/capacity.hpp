// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace msstream::memory {

/// A limit on reserved bytes, with their count. Several pools may share one. Bytes are counted in
/// one atomic step before the memory is taken, so the reserved bytes never exceed the limit,
/// however many threads race. The bytes of a child limit also count in its parent.
class Capacity {
 public:
  explicit Capacity(std::size_t limit_bytes) noexcept : limit_bytes_(limit_bytes) {}
  /// Makes a child limit of `whole`. `addresses_per_byte` is the number of addresses to reserve per
  /// byte of the limit.
  explicit Capacity(std::shared_ptr<Capacity> whole,
                    std::size_t addresses_per_byte = kUsualAddressesPerByte) noexcept
      : limit_bytes_(whole->limit_bytes()),
        addresses_per_byte_(addresses_per_byte),
        whole_(std::move(whole)) {}

  /// Counts `bytes` as reserved. If the limit, or a lower `limit_bytes` of the caller, has no room
  /// for them, returns false and counts nothing.
  [[nodiscard]] bool take(std::size_t bytes, std::size_t limit_bytes) noexcept {
    if (!take_here(bytes, std::min(limit_bytes, limit_bytes_))) {
      return false;
    }
    if (whole_ != nullptr && !whole_->take(bytes, limit_bytes_)) {
      reserved_.fetch_sub(bytes);
      return false;
    }
    raise_peak();
    return true;
  }
  /// Returns whether the limit, its outer limits and `limit_bytes` have room for `bytes` more.
  [[nodiscard]] bool has_room(std::size_t bytes, std::size_t limit_bytes) const noexcept {
    bool has_room = bytes <= limit_bytes && reserved_bytes() <= limit_bytes - bytes;
    for (auto const* part = this; has_room && part != nullptr; part = part->whole_.get()) {
      has_room =
          bytes <= part->limit_bytes_ && part->reserved_bytes() <= part->limit_bytes_ - bytes;
    }
    return has_room;
  }
  void give_back(std::size_t bytes) noexcept {
    reserved_.fetch_sub(bytes);
    if (whole_ != nullptr) {
      whole_->give_back(bytes);
    }
  }

  [[nodiscard]] std::size_t limit_bytes() const noexcept { return limit_bytes_; }
  /// Returns how many addresses to reserve for memory under the limit. There are several per byte,
  /// because addresses cost nothing, and a page that is moved leaves its old address unused for a
  /// while.
  [[nodiscard]] std::size_t address_bytes() const noexcept {
    constexpr std::size_t kMost = std::size_t{1} << 44U;
    return std::min(limit_bytes_, kMost / addresses_per_byte_) * addresses_per_byte_;
  }
  [[nodiscard]] std::size_t reserved_bytes() const noexcept { return reserved_.load(); }
  /// Returns the reserved bytes of all limits under the same outermost limit together.
  [[nodiscard]] std::size_t all_reserved_bytes() const noexcept {
    return whole_ != nullptr ? whole_->all_reserved_bytes() : reserved_bytes();
  }
  [[nodiscard]] std::size_t peak_reserved_bytes() const noexcept { return peak_.load(); }

 private:
  [[nodiscard]] bool take_here(std::size_t bytes, std::size_t limit) noexcept {
    std::size_t reserved = reserved_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit || reserved > limit - bytes) {
        return false;
      }
    } while (!reserved_.compare_exchange_weak(reserved, reserved + bytes));
    return true;
  }
  void raise_peak() noexcept {
    auto const reserved = reserved_.load(std::memory_order_relaxed);
    std::size_t peak = peak_.load(std::memory_order_relaxed);
    while (peak < reserved && !peak_.compare_exchange_weak(peak, reserved)) {
    }
  }

  static constexpr std::size_t kUsualAddressesPerByte = 16;

  std::size_t const limit_bytes_;
  std::size_t const addresses_per_byte_ = kUsualAddressesPerByte;
  std::shared_ptr<Capacity> const whole_ = nullptr;
  std::atomic<std::size_t> reserved_{0};
  std::atomic<std::size_t> peak_{0};
};

}  // namespace msstream::memory
