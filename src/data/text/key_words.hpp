// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/text/remainder.hpp"

#include <cstddef>
#include <cstdint>

namespace msstream::data::detail {

/// Replaces each word by mix64(word), and if `row_of` is not null by the remainder of that: of
/// words of key_word(), by the keys of their texts, or their rows in a table. Processors with
/// AVX-512 compute eight at a time.
void finish_keys(std::uint64_t* words, std::size_t count, Remainder const* row_of);

/// Does what finish_keys() does, one at a time, on any processor.
void finish_keys_one_by_one(std::uint64_t* words, std::size_t count, Remainder const* row_of);

}  // namespace msstream::data::detail
