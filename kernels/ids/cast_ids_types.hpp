// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "ids/bag_layout.hpp"
#include "ids/cast_ids.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

/// Returns `id` as a `To`, or -1 if a `To` cannot represent it.
template <class To, class From>
[[nodiscard]] MSSTREAM_HOST_DEVICE To cast_id(From id) {
  auto const cast = static_cast<To>(id);
  return static_cast<From>(cast) == id ? cast : To{-1};
}

/// Calls function(from, to) with two integers whose types are those that `from_dtype` and
/// `to_dtype` denote. Throws std::invalid_argument unless both types are int32 or int64.
template <class Function>
void with_cast_types(CastIdsArgs const& args, Function const& function) {
  require_id_type("cast_ids", args.from_dtype);
  require_id_type("cast_ids", args.to_dtype);
  auto const with_from = [&](auto from) {
    if (args.to_dtype == DType::int32) {
      function(from, std::int32_t{});
    } else {
      function(from, std::int64_t{});
    }
  };
  if (args.from_dtype == DType::int32) {
    with_from(std::int32_t{});
  } else {
    with_from(std::int64_t{});
  }
}

}  // namespace msstream::ops::kernels
