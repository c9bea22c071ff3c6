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

namespace msstream::datasets {

inline constexpr char const* kMetadataKey = "__metadata__";

/// Returns the word of the safetensors format for an element type, such as `F32`.
[[nodiscard]] std::string_view tensor_word(DType dtype);
[[nodiscard]] std::optional<DType> dtype_of_word(std::string_view word);

/// Returns the bytes of a dense tensor; empty if an extent is negative or the product does not fit
/// in 63 bits.
[[nodiscard]] std::optional<std::uint64_t> tensor_bytes(DType dtype,
                                                        std::span<std::int64_t const> shape);

/// Returns a value shortened and printable for a message: the value may be long and hold any bytes.
[[nodiscard]] std::string shortened(std::string_view value);

[[nodiscard]] bool is_utf8(std::string const& value);

/// Returns a shape as text, such as `[2, 3]`.
[[nodiscard]] std::string describe_shape(std::span<std::int64_t const> shape);

/// Parses JSON in which no object may have a key twice, since readers differ in which one counts.
/// Values must not nest deeper than 8 levels, since they are visited by recursion. Throws
/// DataError.
[[nodiscard]] nlohmann::json parse_strictly(std::string_view json);

}  // namespace msstream::datasets
