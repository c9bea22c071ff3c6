// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/checkpoint/safetensors.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::detail {

inline constexpr char const* kMetadataKey = "__metadata__";
/// The limit that the safetensors library sets for the header of a file.
inline constexpr std::uint64_t kLongestHeader = 100'000'000;

/// An element type of the safetensors format.
struct FormatType {
  std::string_view word;  ///< such as `F32`
  unsigned bits;
  std::optional<DType> dtype;  ///< empty for types that tensors of this library cannot have
};

/// Returns the word of the safetensors format for an element type, such as `F32`.
[[nodiscard]] std::string_view tensor_word(DType dtype);
/// Returns the type with the given word; empty if the format has none.
[[nodiscard]] std::optional<FormatType> format_type(std::string_view word);

/// Returns the bytes of a dense tensor; empty if an extent is negative, if the number of bits does
/// not fit in 63 bits, and if the elements do not fill whole bytes.
[[nodiscard]] std::optional<std::uint64_t> tensor_bytes(unsigned element_bits,
                                                        std::span<std::int64_t const> shape);
[[nodiscard]] inline std::optional<std::uint64_t> tensor_bytes(
    DType dtype, std::span<std::int64_t const> shape) {
  return tensor_bytes(static_cast<unsigned>(8 * bytes_of(dtype)), shape);
}

/// Returns a value shortened and printable for a message: the value may be long and hold any bytes.
[[nodiscard]] std::string shortened(std::string_view value);

/// Returns a shape as text, such as `[2, 3]`.
[[nodiscard]] std::string describe_shape(std::span<std::int64_t const> shape);

/// Parses JSON in which no object may have a key twice, since readers differ in which one counts.
/// Values must not nest deeper than 8 levels, since they are visited by recursion. Throws
/// std::invalid_argument.
[[nodiscard]] nlohmann::json parse_strictly(std::string_view json);

/// A tensor that is to be written, without its elements.
struct TensorEntry {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  bool comes_first = false;  ///< whether it lies in front of all others
};

/// The beginning of a safetensors file, and the order of the tensors that follow it.
struct FileLayout {
  std::string header;              ///< all bytes before those of the first tensor
  std::vector<std::size_t> order;  ///< the indices of the tensors, as they lie in the file
};
/// Lays out a file. Tensors with wide elements come first, so that readers that map the file find
/// every tensor aligned to its elements. Throws std::invalid_argument for what cannot be saved: see
/// save_safetensors().
[[nodiscard]] FileLayout lay_out(std::span<TensorEntry const> tensors,
                                 checkpoint::Metadata const& metadata);

}  // namespace msstream::detail
