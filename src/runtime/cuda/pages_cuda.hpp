// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>

namespace msstream::detail {

/// The driver's functions for virtual memory, which the CUDA runtime API lacks. They are looked up
/// at run time, so that no program needs to link the driver.
struct PageCalls {
  decltype(&cuDeviceGetAttribute) get_attribute;
  decltype(&cuMemGetAllocationGranularity) get_granularity;
  decltype(&cuMemAddressReserve) reserve;
  decltype(&cuMemAddressFree) release;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) destroy;
  decltype(&cuMemRetainAllocationHandle) retain;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;
  decltype(&cuGetErrorString) error_string;
};

/// Manages the physical memory pages of one device. A page is freed when its last mapping is
/// removed. Thread-safe.
class CudaPages {
 public:
  explicit CudaPages(int ordinal);
  CudaPages(CudaPages const&) = delete;
  CudaPages& operator=(CudaPages const&) = delete;

  /// Returns the page size; 0 if the device or its driver does not support pages.
  [[nodiscard]] std::size_t page_bytes() const noexcept { return page_bytes_; }
  void* reserve(std::size_t bytes);
  void release(void* addresses, std::size_t bytes) noexcept;
  void map(void* at, std::size_t bytes);
  /// Maps the pages that are mapped at `from` also at `to`. The mapping at `from` stays until
  /// unmap().
  void move(void* to, void* from, std::size_t bytes);
  void unmap(void* at, std::size_t bytes) noexcept;

 private:
  using Page = CUmemGenericAllocationHandle;

  void check(CUresult code, char const* call) const;
  [[nodiscard]] Page create() const;
  /// Maps consecutive pages from address `at` on. `next_page(offset)` returns each page with a
  /// reference, which this function releases. If a call throws, removes the mappings that it has
  /// made.
  template <class NextPage>
  void put_all(CUdeviceptr at, std::size_t bytes, NextPage&& next_page);
  void allow_access(CUdeviceptr at, std::size_t bytes) const;

  PageCalls calls_{};
  CUmemAllocationProp kind_{};
  std::size_t page_bytes_ = 0;
};

}  // namespace msstream::detail
