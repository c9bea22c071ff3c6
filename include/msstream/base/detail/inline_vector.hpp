// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace msstream::detail {

/// A growing list of trivially copyable values that allocates no memory for up to `Inline`
/// elements.
template <class T, std::size_t Inline>
  requires std::is_trivially_copyable_v<T>
class InlineVector {
 public:
  InlineVector() = default;
  InlineVector(InlineVector const&) = default;
  InlineVector& operator=(InlineVector const& other) {
    if (has_spilled() || other.has_spilled()) [[unlikely]] {
      spilled_ = other.spilled_;
    }
    size_ = other.size_;
    inline_ = other.inline_;
    return *this;
  }
  InlineVector(InlineVector&& other) noexcept { *this = std::move(other); }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (has_spilled() || other.has_spilled()) [[unlikely]] {
      spilled_ = std::exchange(other.spilled_, {});
    }
    size_ = std::exchange(other.size_, 0);
    inline_ = other.inline_;
    return *this;
  }
  ~InlineVector() = default;

  void push_back(T const& value) {
    if (size_ < Inline) [[likely]] {
      inline_[size_++] = value;
    } else {
      spill(value);
    }
  }
  /// Adds T{parts…}. Writes each part to its place: a processor that copies a value right after its
  /// parts were written one by one waits until they have left for the cache.
  template <class... Parts>
  void emplace_back(Parts const&... parts) {
    if (size_ < Inline) [[likely]] {
      ::new (static_cast<void*>(&inline_[size_++])) T{parts...};
    } else {
      spill(T{parts...});
    }
  }
  void clear() noexcept { resize_down(0); }
  /// Shrinks the list to its first `count` elements.
  void resize_down(std::size_t count) noexcept {
    if (has_spilled()) [[unlikely]] {
      if (count <= Inline) {
        for (std::size_t i = 0; i < count; ++i) {
          inline_[i] = spilled_[i];
        }
        spilled_.clear();
      } else {
        spilled_.resize(count);
      }
    }
    size_ = count;
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] T* begin() noexcept { return has_spilled() ? spilled_.data() : inline_.data(); }
  [[nodiscard]] T* end() noexcept { return begin() + size_; }
  [[nodiscard]] T const* begin() const noexcept {
    return has_spilled() ? spilled_.data() : inline_.data();
  }
  [[nodiscard]] T const* end() const noexcept { return begin() + size_; }
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return begin()[i]; }
  [[nodiscard]] T const& operator[](std::size_t i) const noexcept { return begin()[i]; }
  [[nodiscard]] std::span<T const> view() const noexcept { return {begin(), size_}; }

 private:
  [[nodiscard]] bool has_spilled() const noexcept { return size_ > Inline; }
  [[gnu::noinline]] void spill(T const& value) {
    if (size_ == Inline) {
      spilled_.assign(inline_.begin(), inline_.end());
    }
    spilled_.push_back(value);
    ++size_;
  }

  std::size_t size_ = 0;
  std::array<T, Inline> inline_;
  std::vector<T> spilled_;
};

}  // namespace msstream::detail
