// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fuzz.hpp"

#include <zlib.h>

#include <string>
#include <string_view>

namespace msstream::fuzz {

/// Compresses the bytes to one gzip member, at the fastest compression level.
[[nodiscard]] inline std::string gzipped(std::string_view bytes) {
  z_stream stream{};
  constexpr int gzip_with_small_window = 16 + 9;
  expect(
      deflateInit2(&stream, 1, Z_DEFLATED, gzip_with_small_window, 1, Z_DEFAULT_STRATEGY) == Z_OK,
      "deflateInit2");
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  expect(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflate");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace msstream::fuzz
