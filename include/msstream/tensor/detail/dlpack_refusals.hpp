// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/base/shape.hpp>

#include <cstddef>
#include <cstdint>

namespace msstream::detail {

/// The fields of a DLDataType.
struct DlpackType {
  int code;
  int bits;
  int lanes;
};

/// The fields of a DLDevice.
struct DlpackDevice {
  int type;
  int number;
};

// Each throws std::invalid_argument, which says what from_dlpack() found and what it expected.
[[noreturn]] void refuse_dlpack_dimensions(int found);
[[noreturn]] void refuse_dlpack_stride(std::int64_t found,
                                       std::size_t dimension,
                                       Shape const& shape,
                                       std::int64_t expected);
[[noreturn]] void refuse_dlpack_type(DlpackType found, DType expected, DlpackType expected_type);
[[noreturn]] void refuse_dlpack_device(DlpackDevice found, DlpackDevice expected);
[[noreturn]] void refuse_dlpack_address(std::uintptr_t address,
                                        std::uint64_t byte_offset,
                                        std::size_t alignment);
[[noreturn]] void refuse_dlpack_no_memory(Shape const& shape);

}  // namespace msstream::detail
