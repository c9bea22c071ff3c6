// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/format.hpp>
#include <msstream/tensor/detail/dlpack_refusals.hpp>

#include <fmt/core.h>

#include <stdexcept>

namespace msstream::detail {

void refuse_dlpack_dimensions(int found) {
  throw std::invalid_argument(fmt::format(
      "from_dlpack: a tensor of {} dimensions; expected at most {}", found, Shape::kMaxRank));
}

void refuse_dlpack_stride(std::int64_t found,
                          std::size_t dimension,
                          Shape const& shape,
                          std::int64_t expected) {
  throw std::invalid_argument(fmt::format(
      "from_dlpack: stride {} in dimension {} of a tensor of shape {}; expected {}, for "
      "row-major elements without gaps",
      found,
      dimension,
      shape,
      expected));
}

void refuse_dlpack_type(DlpackType found, DType expected, DlpackType expected_type) {
  throw std::invalid_argument(
      fmt::format("from_dlpack: elements of type code {}, {} bits, {} lanes; expected {} (code {}, "
                  "{} bits, 1 lane)",
                  found.code,
                  found.bits,
                  found.lanes,
                  expected,
                  expected_type.code,
                  expected_type.bits));
}

void refuse_dlpack_device(DlpackDevice found, DlpackDevice expected) {
  throw std::invalid_argument(
      fmt::format("from_dlpack: memory of device type {}, number {}; expected type {}, number {}",
                  found.type,
                  found.number,
                  expected.type,
                  expected.number));
}

void refuse_dlpack_address(std::uintptr_t address,
                           std::uint64_t byte_offset,
                           std::size_t alignment) {
  throw std::invalid_argument(
      fmt::format("from_dlpack: address {} (byte offset {} included); expected a multiple of {}",
                  address,
                  byte_offset,
                  alignment));
}

void refuse_dlpack_no_memory(Shape const& shape) {
  throw std::invalid_argument(
      fmt::format("from_dlpack: no memory for a tensor of shape {}", shape));
}

}  // namespace msstream::detail
