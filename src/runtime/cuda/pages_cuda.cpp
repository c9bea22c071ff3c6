// SPDX-License-Identifier: Apache-2.0
#include "pages_cuda.hpp"

#include "driver_call_cuda.hpp"

#include <msstream/base/error.hpp>
#include <msstream/runtime/cuda.hpp>

#include <cuda_runtime_api.h>

#include <fmt/core.h>

#include <utility>

namespace msstream {

namespace detail {

namespace {

constexpr unsigned kMeaningOfCalls = 12000;  // the CUDA version whose functions are looked up

bool find_all(PageCalls& calls) {
  auto const find = [](auto& call, char const* name) {
    return find_driver_call(call, name, kMeaningOfCalls);
  };
  return find(calls.get_attribute, "cuDeviceGetAttribute") &&
         find(calls.get_granularity, "cuMemGetAllocationGranularity") &&
         find(calls.reserve, "cuMemAddressReserve") && find(calls.release, "cuMemAddressFree") &&
         find(calls.create, "cuMemCreate") && find(calls.destroy, "cuMemRelease") &&
         find(calls.retain, "cuMemRetainAllocationHandle") && find(calls.map, "cuMemMap") &&
         find(calls.unmap, "cuMemUnmap") && find(calls.set_access, "cuMemSetAccess") &&
         find(calls.error_string, "cuGetErrorString");
}

CUdeviceptr number_of(void* address) {
  return reinterpret_cast<CUdeviceptr>(address);
}
void* address_of(CUdeviceptr number) {
  return reinterpret_cast<void*>(number);  // NOLINT(performance-no-int-to-ptr): CUDA's addresses
}

}  // namespace

CudaPages::CudaPages(int ordinal) {
  kind_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  kind_.location.id = ordinal;
  int supported = 0;
  bool const can_do_it =
      find_all(calls_) &&
      calls_.get_attribute(&supported,
                           CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                           ordinal) == CUDA_SUCCESS &&
      supported != 0 &&
      calls_.get_granularity(&page_bytes_, &kind_, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) ==
          CUDA_SUCCESS;
  if (!can_do_it) {
    cudaGetLastError();
    page_bytes_ = 0;
  }
}

void* CudaPages::reserve(std::size_t bytes) {
  CUdeviceptr addresses = 0;
  auto const code = calls_.reserve(&addresses, bytes, page_bytes_, 0, 0);
  if (code == CUDA_ERROR_OUT_OF_MEMORY) {
    throw OutOfMemory(bytes,
                      fmt::format("cuda runtime: the process has no {} addresses left", bytes));
  }
  check(code, "cuMemAddressReserve");
  return address_of(addresses);
}

void CudaPages::release(void* addresses, std::size_t bytes) noexcept {
  calls_.release(number_of(addresses), bytes);
}

void CudaPages::map(void* at, std::size_t bytes) {
  put_all(number_of(at), bytes, [this](std::size_t) { return create(); });
}

// Maps the physical pages at the new addresses as well. A page may be mapped at two addresses, and
// is freed when its last mapping ends.
void CudaPages::move(void* to, void* from, std::size_t bytes) {
  put_all(number_of(to), bytes, [&](std::size_t offset) {
    Page page = 0;
    check(calls_.retain(&page, static_cast<std::byte*>(from) + offset),
          "cuMemRetainAllocationHandle");
    return page;
  });
}

void CudaPages::unmap(void* at, std::size_t bytes) noexcept {
  for (std::size_t offset = 0; offset < bytes; offset += page_bytes_) {
    calls_.unmap(number_of(at) + offset, page_bytes_);
  }
}

void CudaPages::check(CUresult code, char const* call) const {
  if (code == CUDA_ERROR_OUT_OF_MEMORY) [[unlikely]] {
    throw OutOfMemory(page_bytes_, fmt::format("cuda runtime: {} found no memory", call));
  }
  if (code != CUDA_SUCCESS) [[unlikely]] {
    char const* what = "unknown error";
    calls_.error_string(code, &what);
    throw CudaError(static_cast<int>(code), what, call);
  }
}

CudaPages::Page CudaPages::create() const {
  Page page = 0;
  auto const code = calls_.create(&page, page_bytes_, &kind_, 0);
  if (code == CUDA_ERROR_OUT_OF_MEMORY) {
    throw OutOfMemory(page_bytes_, "cuda runtime: the device has no page left");
  }
  check(code, "cuMemCreate");
  return page;
}

template <class NextPage>
void CudaPages::put_all(CUdeviceptr at, std::size_t bytes, NextPage&& next_page) {
  std::size_t done = 0;
  try {
    for (; done < bytes; done += page_bytes_) {
      Page const page = next_page(done);
      auto const code = calls_.map(at + done, page_bytes_, 0, page, 0);
      calls_.destroy(page);  // the mapping keeps the page
      check(code, "cuMemMap");
    }
    allow_access(at, bytes);
  } catch (...) {
    unmap(address_of(at), done);
    throw;
  }
}

void CudaPages::allow_access(CUdeviceptr at, std::size_t bytes) const {
  CUmemAccessDesc access{};
  access.location = kind_.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  check(calls_.set_access(at, bytes, &access, 1), "cuMemSetAccess");
}

}  // namespace detail

std::size_t Cuda::page_bytes() const {
  return pages_->page_bytes();
}
void* Cuda::reserve_addresses(std::size_t bytes) {
  make_current();
  return pages_->reserve(bytes);
}
void Cuda::release_addresses(void* addresses, std::size_t bytes) noexcept {
  if (!home_.is_left()) {
    pages_->release(addresses, bytes);
  }
}
void Cuda::map_pages(void* at, std::size_t bytes) {
  make_current();
  pages_->map(at, bytes);
}
void Cuda::move_pages(void* to, void* from, std::size_t bytes) {
  make_current();
  pages_->move(to, from, bytes);
}
void Cuda::leave_pages(void* from, std::size_t bytes) noexcept {
  if (!home_.is_left()) {
    pages_->unmap(from, bytes);
  }
}
void Cuda::unmap_pages(void* at, std::size_t bytes) noexcept {
  if (!home_.is_left()) {
    pages_->unmap(at, bytes);
  }
}

}  // namespace msstream
