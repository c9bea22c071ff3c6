// SPDX-License-Identifier: Apache-2.0
#include "fake_pages.hpp"

#include <sys/mman.h>

#include <iterator>

namespace fake_cuda {

namespace {

void* address(CUdeviceptr at) {
  return reinterpret_cast<void*>(at);
}

}  // namespace

CUresult FakePages::reserve(CUdeviceptr* begin, std::size_t bytes) {
  // Aligns the addresses to pages, as the driver does; mmap() does not.
  std::size_t const with_slack = bytes + kPageBytes;
  void* const mapped =
      mmap(nullptr, with_slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  auto const first = reinterpret_cast<CUdeviceptr>(mapped);
  *begin = (first + kPageBytes - 1) / kPageBytes * kPageBytes;
  std::size_t const before = *begin - first;
  if (before != 0) {
    munmap(mapped, before);
  }
  munmap(address(*begin + bytes), kPageBytes - before);
  reservations_.emplace(*begin, bytes);
  return CUDA_SUCCESS;
}

CUresult FakePages::release(CUdeviceptr begin, std::size_t bytes) {
  auto const found = reservations_.find(begin);
  auto const place = places_.lower_bound(begin);
  bool const is_empty = place == places_.end() || place->first >= begin + bytes;
  if (found == reservations_.end() || found->second != bytes || !is_empty) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  munmap(address(begin), bytes);
  reservations_.erase(found);
  return CUDA_SUCCESS;
}

CUresult FakePages::create(Handle* page, std::size_t most_pages) {
  if (pages_.size() >= most_pages) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *page = ++last_handle_;
  pages_[*page].handles = 1;
  return CUDA_SUCCESS;
}

CUresult FakePages::drop(Handle page) {
  auto const found = pages_.find(page);
  if (found == pages_.end() || found->second.handles == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  --found->second.handles;
  forget_if_unused(page);
  return CUDA_SUCCESS;
}

CUresult FakePages::retain(Handle* page, CUdeviceptr at) {
  auto const place = places_.find(at);
  if (place == places_.end()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *page = place->second.page;
  ++pages_[*page].handles;
  return CUDA_SUCCESS;
}

CUresult FakePages::map(CUdeviceptr at, Handle page) {
  auto const found = pages_.find(page);
  bool const has_handle = found != pages_.end() && found->second.handles != 0;
  if (!has_handle || at % kPageBytes != 0 || !is_reserved(at, kPageBytes) ||
      !places_.emplace(at, Place{page}).second) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ++found->second.places;
  return CUDA_SUCCESS;
}

CUresult FakePages::unmap(CUdeviceptr at) {
  auto const place = places_.find(at);
  if (place == places_.end()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  madvise(address(at), kPageBytes, MADV_DONTNEED);
  mprotect(address(at), kPageBytes, PROT_NONE);
  Handle const page = place->second.page;
  places_.erase(place);
  --pages_[page].places;
  forget_if_unused(page);
  return CUDA_SUCCESS;
}

CUresult FakePages::allow_access(CUdeviceptr at, std::size_t bytes) {
  for (std::size_t offset = 0; offset < bytes; offset += kPageBytes) {
    auto const place = places_.find(at + offset);
    if (place == places_.end()) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    place->second.accessible = true;
  }
  return mprotect(address(at), bytes, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS
                                                                   : CUDA_ERROR_OUT_OF_MEMORY;
}

bool FakePages::owns(void const* memory, std::size_t bytes) const {
  auto const begin = reinterpret_cast<CUdeviceptr>(memory);
  for (CUdeviceptr at = begin / kPageBytes * kPageBytes; at < begin + bytes; at += kPageBytes) {
    auto const place = places_.find(at);
    if (place == places_.end() || !place->second.accessible) {
      return false;
    }
  }
  return true;
}

bool FakePages::is_reserved(CUdeviceptr at, std::size_t bytes) const {
  auto const after = reservations_.upper_bound(at);
  if (after == reservations_.begin()) {
    return false;
  }
  auto const& [begin, reserved_bytes] = *std::prev(after);
  return at + bytes <= begin + reserved_bytes;
}

void FakePages::forget_if_unused(Handle page) {
  auto const found = pages_.find(page);
  if (found->second.handles == 0 && found->second.places == 0) {
    pages_.erase(found);
  }
}

}  // namespace fake_cuda
