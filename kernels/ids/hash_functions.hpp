// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::ops::kernels {

/// Applies the 64-bit finaliser of MurmurHash3 (Austin Appleby, public domain), a bijection in
/// which every input bit changes about half of the output bits.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t key) {
  key ^= key >> 33U;
  key *= 0xFF51AFD7ED558CCDULL;
  key ^= key >> 33U;
  key *= 0xC4CEB9FE1A85EC53ULL;
  return key ^ (key >> 33U);
}

[[nodiscard]] constexpr std::int64_t bucket_of(std::int64_t key,
                                               std::uint64_t salt,
                                               std::int64_t bucket_count) {
  return static_cast<std::int64_t>(mix(static_cast<std::uint64_t>(key) + salt) %
                                   static_cast<std::uint64_t>(bucket_count));
}

}  // namespace msstream::ops::kernels
