// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::support {

inline constexpr char const* kMetadataKey = "__metadata__";

/// The format's word for an element type, as `F32`.
[[nodiscard]] std::string_view tensor_word(DType dtype);
[[nodiscard]] std::optional<DType> dtype_of_word(std::string_view word);

/// Bytes of a dense tensor; empty when an extent is negative or the product does not fit in 63
/// bits.
[[nodiscard]] std::optional<std::uint64_t> tensor_bytes(DType dtype,
                                                        std::span<std::int64_t const> shape);

/// For messages: the value may be a megabyte of anything.
[[nodiscard]] std::string shortened(std::string_view value);

[[nodiscard]] bool is_utf8(std::string const& value);

/// `[2, 3]`.
[[nodiscard]] std::string describe_shape(std::span<std::int64_t const> shape);

/// Parses JSON in which no object may have a key twice: which one counts differs from reader to
/// reader. Nor may values nest deeper than 8: whoever walks them does it by recursion. Throws
/// DataError.
[[nodiscard]] nlohmann::json parse_strictly(std::string_view json);

}  // namespace msstream::support
