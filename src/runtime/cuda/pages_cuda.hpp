// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>

namespace msstream::detail {

/// The driver's functions for virtual memory, which the runtime API lacks. Found at run time, so
/// that nothing links the driver.
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

/// The physical pages of one device, each owned by the addresses at which it is mapped.
/// Thread-safe.
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
  /// Maps the pages at `to`. They stay mapped at `from` as well, until unmap().
  void move(void* to, void* from, std::size_t bytes);
  void unmap(void* at, std::size_t bytes) noexcept;

 private:
  using Page = CUmemGenericAllocationHandle;

  void check(CUresult code, char const* call) const;
  [[nodiscard]] Page create() const;
  /// Maps the pages that `next_page(offset)` returns, whose references it consumes. Maps all of
  /// them, or none if it throws.
  template <class NextPage>
  void put_all(CUdeviceptr at, std::size_t bytes, NextPage&& next_page);
  void allow_access(CUdeviceptr at, std::size_t bytes) const;

  PageCalls calls_{};
  CUmemAllocationProp kind_{};
  std::size_t page_bytes_ = 0;
};

}  // namespace msstream::detail
