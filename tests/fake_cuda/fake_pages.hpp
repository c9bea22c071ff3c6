// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>

namespace fake_cuda {

/// Fake pages of device memory, and the addresses at which they are mapped. A page exists while it
/// has a handle or a mapping, as in the driver. An access to an address without a page, or without
/// access rights, causes a fault.
class FakePages {
 public:
  static constexpr std::size_t kPageBytes = std::size_t{2} << 20U;
  using Handle = CUmemGenericAllocationHandle;

  CUresult reserve(CUdeviceptr* begin, std::size_t bytes);
  CUresult release(CUdeviceptr begin, std::size_t bytes);
  CUresult create(Handle* page, std::size_t most_pages);
  CUresult drop(Handle page);
  CUresult retain(Handle* page, CUdeviceptr at);
  CUresult map(CUdeviceptr at, Handle page);
  CUresult unmap(CUdeviceptr at);
  CUresult allow_access(CUdeviceptr at, std::size_t bytes);

  /// Returns whether all bytes are in pages that are mapped with access rights.
  [[nodiscard]] bool owns(void const* memory, std::size_t bytes) const;
  [[nodiscard]] std::size_t page_count() const { return pages_.size(); }

 private:
  struct Page {
    int handles = 0;
    int places = 0;
  };
  struct Place {
    Handle page;
    bool accessible = false;
  };

  [[nodiscard]] bool is_reserved(CUdeviceptr at, std::size_t bytes) const;
  void forget_if_unused(Handle page);

  std::map<CUdeviceptr, std::size_t> reservations_;
  std::map<Handle, Page> pages_;
  std::map<CUdeviceptr, Place> places_;
  Handle last_handle_ = 0;
};

}  // namespace fake_cuda
