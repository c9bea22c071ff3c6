// SPDX-License-Identifier: Apache-2.0
#include "cub_cache.hpp"
#include "cuda_success.hpp"

#include <cub/util_allocator.cuh>

#include <cstdint>
#include <limits>
#include <mutex>

namespace benchmarks {

namespace {

constexpr unsigned kGrowth = 2;
constexpr unsigned kSmallestBin = 8;  // an exponent: 2^8 bytes
constexpr unsigned kLargestBin = 26;

}  // namespace

struct CubCache::Impl {
  int device = 0;
  mutable cub::CachingDeviceAllocator allocator{
      kGrowth, kSmallestBin, kLargestBin, std::numeric_limits<std::size_t>::max()};
};

CubCache::CubCache() : impl_(std::make_unique<Impl>()) {
  require_success(cudaGetDevice(&impl_->device), "cudaGetDevice");
}

CubCache::~CubCache() {
  static_cast<void>(impl_->allocator.FreeAllCached());
}

void* CubCache::allocate(std::size_t bytes, CUstream_st* stream) {
  void* memory = nullptr;
  if (impl_->allocator.DeviceAllocate(impl_->device, &memory, bytes, stream) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return nullptr;
  }
  return memory;
}

void CubCache::free(void* memory) {
  require_success(impl_->allocator.DeviceFree(impl_->device, memory), "CUB: DeviceFree");
}

std::size_t CubCache::reserved_bytes() const {
  std::lock_guard const guard(impl_->allocator.mutex);
  auto const& bytes = impl_->allocator.cached_bytes[impl_->device];
  return bytes.free + bytes.live;
}

}  // namespace benchmarks
