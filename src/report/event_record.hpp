// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace msstream::detail {

/// Returns the CRC-32C (Castagnoli) of bytes: RFC 3720, B.4.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes) noexcept;
/// Returns the checksum as TFRecord files have it: a checksum of data that has checksums in it
/// would be weak, so that it is rotated and shifted.
[[nodiscard]] std::uint32_t masked_crc32c(std::string_view bytes) noexcept;

/// Appends a record of a TFRecord file: the length, its checksum, the data, its checksum.
void append_record(std::string& out, std::string_view data);

// Each of the functions below returns an event of TensorBoard, a message of the format Protocol
// Buffers: tensorflow/core/util/event.proto and tensorflow/core/framework/summary.proto.

/// Returns the event with which a file begins.
[[nodiscard]] std::string version_event(double time);
[[nodiscard]] std::string scalar_event(double time,
                                       std::int64_t step,
                                       std::string_view tag,
                                       double value);
[[nodiscard]] std::string text_event(double time,
                                     std::int64_t step,
                                     std::string_view tag,
                                     std::string_view text);
/// Returns the event of a histogram of the finite values; an empty string if there are none.
[[nodiscard]] std::string histogram_event(double time,
                                          std::int64_t step,
                                          std::string_view tag,
                                          std::span<float const> values);

}  // namespace msstream::detail
