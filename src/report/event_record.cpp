// SPDX-License-Identifier: Apache-2.0
#include "report/event_record.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace msstream::detail {

namespace {

constexpr std::array<std::uint32_t, 256> kCrcOfByte = [] {
  constexpr std::uint32_t reversed_polynomial = 0x82F63B78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? reversed_polynomial : 0U);
    }
    table[byte] = crc;
  }
  return table;
}();

template <class Number>
void append_little_endian(std::string& out, Number number) {
  static_assert(std::endian::native == std::endian::little);
  auto const bytes = std::bit_cast<std::array<char, sizeof number>>(number);
  out.append(bytes.data(), bytes.size());
}

/// Appends fields of a message to a string, in the encoding of Protocol Buffers.
class Message {
 public:
  Message& number(unsigned field, std::int64_t value) {
    key(field, WireType::varint);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  Message& real(unsigned field, double value) {
    key(field, WireType::fixed64);
    append_little_endian(bytes_, value);
    return *this;
  }
  Message& real(unsigned field, float value) {
    key(field, WireType::fixed32);
    append_little_endian(bytes_, value);
    return *this;
  }
  Message& text(unsigned field, std::string_view value) {
    key(field, WireType::bytes);
    varint(value.size());
    bytes_.append(value);
    return *this;
  }
  Message& message(unsigned field, Message const& value) { return text(field, value.bytes_); }
  Message& reals(unsigned field, std::span<double const> values) {
    key(field, WireType::bytes);
    varint(values.size_bytes());
    for (double const value : values) {
      append_little_endian(bytes_, value);
    }
    return *this;
  }

  [[nodiscard]] std::string const& bytes() const noexcept { return bytes_; }

 private:
  enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  void key(unsigned field, WireType type) { varint(field << 3U | static_cast<unsigned>(type)); }
  void varint(std::uint64_t value) {
    while (value >= 0x80) {
      bytes_ += static_cast<char>((value & 0x7FU) | 0x80U);
      value >>= 7U;
    }
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

/// Returns an event with a summary that has one value.
std::string event_of(double time, std::int64_t step, Message const& value) {
  return Message().real(1, time).number(2, step).message(5, Message().message(1, value)).bytes();
}

/// Returns the upper limits of the buckets of all histograms: 1e-12 and larger ones, each a tenth
/// larger than the one before; the same below 0; and between them 0.
std::vector<double> const& bucket_limits() {
  static std::vector<double> const limits = [] {
    std::vector<double> positive;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) {
      positive.push_back(limit);
    }
    positive.push_back(std::numeric_limits<double>::max());
    std::vector<double> all;
    for (auto const limit : positive) {
      all.insert(all.begin(), -limit);
    }
    all.push_back(0.0);
    all.insert(all.end(), positive.begin(), positive.end());
    return all;
  }();
  return limits;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) noexcept {
  std::uint32_t crc = ~std::uint32_t{0};
  for (char const byte : bytes) {
    crc = (crc >> 8U) ^ kCrcOfByte[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU];
  }
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) noexcept {
  constexpr std::uint32_t shift = 0xA282EAD8;
  return std::rotr(crc32c(bytes), 15) + shift;
}

void append_record(std::string& out, std::string_view data) {
  std::string length;
  append_little_endian(length, static_cast<std::uint64_t>(data.size()));
  out += length;
  append_little_endian(out, masked_crc32c(length));
  out += data;
  append_little_endian(out, masked_crc32c(data));
}

std::string version_event(double time) {
  return Message().real(1, time).text(3, "brain.Event:2").bytes();
}

std::string scalar_event(double time, std::int64_t step, std::string_view tag, double value) {
  // A finite value beyond the range of float32 must not become infinite.
  constexpr double most = std::numeric_limits<float>::max();
  double const stored = std::isfinite(value) ? std::clamp(value, -most, most) : value;
  return event_of(time, step, Message().text(1, tag).real(2, static_cast<float>(stored)));
}

std::string text_event(double time,
                       std::int64_t step,
                       std::string_view tag,
                       std::string_view text) {
  constexpr std::int64_t dt_string = 7;
  auto const shape = Message().message(2, Message().number(1, 1));
  auto const tensor = Message().number(1, dt_string).message(2, shape).text(8, text);
  auto const plugin = Message().message(1, Message().text(1, "text"));
  return event_of(time, step, Message().text(1, tag).message(8, tensor).message(9, plugin));
}

std::string histogram_event(double time,
                            std::int64_t step,
                            std::string_view tag,
                            std::span<float const> values) {
  auto const& limits = bucket_limits();
  std::vector<double> counts(limits.size());
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  double count = 0;
  double sum = 0;
  double squares = 0;
  for (double const value : values) {
    if (!std::isfinite(value)) {
      continue;
    }
    least = std::min(least, value);
    most = std::max(most, value);
    count += 1;
    sum += value;
    squares += value * value;
    // A bucket has the values from the limit before it up to its own, which it excludes.
    auto const found = std::ranges::upper_bound(limits, value);
    counts[static_cast<std::size_t>(found - limits.begin())] += 1;
  }
  if (count == 0) {
    return {};
  }
  auto const is_used = [](double n) { return n > 0; };
  auto const first = std::ranges::find_if(counts, is_used) - counts.begin();
  auto const last = counts.rend() - std::find_if(counts.rbegin(), counts.rend(), is_used);
  auto const begin = static_cast<std::size_t>(std::max<std::ptrdiff_t>(first - 1, 0));
  auto const used = static_cast<std::size_t>(last) - begin;
  auto const histogram = Message()
                             .real(1, least)
                             .real(2, most)
                             .real(3, count)
                             .real(4, sum)
                             .real(5, squares)
                             .reals(6, std::span(limits).subspan(begin, used))
                             .reals(7, std::span<double const>(counts).subspan(begin, used));
  return event_of(time, step, Message().text(1, tag).message(5, histogram));
}

}  // namespace msstream::detail
