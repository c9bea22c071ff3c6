// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/buffers.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace msstream::overlap::record {

Buffers::Buffers(std::size_t limit_bytes, std::size_t bytes)
    : bytes_(bytes), limit_(std::max<std::size_t>(limit_bytes / bytes, 4)) {
  empty_.reserve(limit_);
  filled_.reserve(limit_);
}

void Buffers::make_ahead() {
  std::lock_guard const lock(mutex_);
  while (empty_.size() < std::min<std::size_t>(limit_, 16) && count_ < limit_) {
    auto* const data = static_cast<std::uint8_t*>(std::aligned_alloc(64, bytes_));
    if (data == nullptr) {
      return;
    }
    std::memset(data, 0, bytes_);
    empty_.push_back(data);
    ++count_;
  }
}

std::uint8_t* Buffers::request() noexcept {
  {
    std::lock_guard const lock(mutex_);
    if (!empty_.empty()) {
      std::uint8_t* const data = empty_.back();
      empty_.pop_back();
      return data;
    }
    if (count_ == limit_) {
      ++refusals_;
      return nullptr;
    }
    ++count_;
  }
  auto* const data = static_cast<std::uint8_t*>(std::aligned_alloc(64, bytes_));
  if (data == nullptr) {
    std::lock_guard const lock(mutex_);
    --count_;
    ++refusals_;
    return nullptr;
  }
  std::memset(data, 0, bytes_);
  return data;
}

std::size_t Buffers::complete(std::uint8_t* data, std::size_t valid_bytes) noexcept {
  std::lock_guard const lock(mutex_);
  filled_.push_back({data, valid_bytes});  // never more than limit_, which is reserved
  filled_bytes_ += valid_bytes;
  return filled_bytes_;
}

std::vector<Buffers::Filled> Buffers::take() {
  std::vector<Filled> taken;
  taken.reserve(limit_);
  std::lock_guard const lock(mutex_);
  std::swap(taken, filled_);
  filled_bytes_ = 0;
  return taken;
}

void Buffers::give_back(Filled buffer) {
  std::memset(buffer.data, 0, std::min(buffer.valid_bytes, bytes_));
  std::lock_guard const lock(mutex_);
  empty_.push_back(buffer.data);
}

void Buffers::free_empty() {
  std::lock_guard const lock(mutex_);
  for (std::uint8_t* const data : empty_) {
    std::free(data);
  }
  count_ -= empty_.size();
  empty_.clear();
}

bool Buffers::is_half_full() const {
  std::lock_guard const lock(mutex_);
  return filled_.size() > limit_ / 2;
}

std::uint64_t Buffers::refusals() const {
  std::lock_guard const lock(mutex_);
  return refusals_;
}

std::size_t Buffers::most_bytes() const {
  std::lock_guard const lock(mutex_);
  return count_ * bytes_;
}

}  // namespace msstream::overlap::record
