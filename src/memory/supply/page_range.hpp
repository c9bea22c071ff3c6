// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/runtime/detail/backend.hpp>

#include <algorithm>
#include <cstddef>

namespace msstream::memory {

/// A range of addresses in which pages of memory can be mapped and moved. Empty if the runtime has
/// no pages. Not synchronised.
class PageRange {
 public:
  struct Span {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
  };

  /// Reserves `wanted_bytes` of addresses, or as many as the process can have, for up to
  /// `most_bytes` of memory at a time. Reserves none if `most_bytes` are less than kLeastPages
  /// pages, or more than the addresses that the process can have.
  PageRange(detail::Backend& runtime, std::size_t most_bytes, std::size_t wanted_bytes)
      : runtime_(runtime), page_bytes_(runtime.page_bytes()) {
    if (page_bytes_ != 0 && most_bytes / kLeastPages >= page_bytes_) {
      reserve(most_bytes, wanted_bytes);
    }
  }
  PageRange(PageRange const&) = delete;
  PageRange& operator=(PageRange const&) = delete;
  ~PageRange() {
    if (bytes_ != 0) {
      runtime_.release_addresses(begin_, bytes_);
    }
  }

  [[nodiscard]] std::byte* begin() const noexcept { return begin_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t page_bytes() const noexcept { return page_bytes_; }
  /// Returns `bytes` rounded up to whole pages.
  [[nodiscard]] std::size_t in_pages(std::size_t bytes) const noexcept {
    return (bytes + page_bytes_ - 1) / page_bytes_ * page_bytes_;
  }

  /// Returns the whole pages among the `bytes` addresses from `begin` on.
  [[nodiscard]] Span pages_in(std::byte const* begin, std::size_t bytes) const noexcept {
    auto const before = static_cast<std::size_t>(begin - begin_);
    auto const first = in_pages(before);
    auto const end = (before + bytes) / page_bytes_ * page_bytes_;
    return first < end ? Span{begin_ + first, end - first} : Span{};
  }

 private:
  // The least number of pages for which a range is used. With fewer, rounding to pages costs more
  // than pages save.
  static constexpr std::size_t kLeastPages = 32;

  /// Reserves as many addresses as the process can have, up to `wanted_bytes`. A limit of the
  /// address space or a sanitizer may leave fewer. Reserves none if they are fewer than
  /// `most_bytes`.
  void reserve(std::size_t most_bytes, std::size_t wanted_bytes) {
    auto wanted = in_pages(wanted_bytes);
    while (begin_ == nullptr && wanted >= most_bytes) {
      try {
        begin_ = static_cast<std::byte*>(runtime_.reserve_addresses(wanted));
        bytes_ = wanted;
      } catch (OutOfMemory const&) {
        wanted = in_pages(wanted / 2);
      }
    }
  }

  detail::Backend& runtime_;
  std::size_t page_bytes_;
  std::byte* begin_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace msstream::memory
