// SPDX-License-Identifier: Apache-2.0
// Replaces src/runtime/cuda/libraries_cuda.cpp in the allocator for PyTorch, which computes nothing
// and must not need cuBLASLt: the linker prefers these definitions to those of the static library.
#include <msstream/runtime/cuda.hpp>

#include <stdexcept>

namespace msstream {

Cuda::native_libraries Cuda::create_libraries(LibraryOptions const&) {
  throw std::logic_error("the allocator for PyTorch has no libraries for computing");
}

void Cuda::destroy_libraries(native_libraries) noexcept {}

}  // namespace msstream
