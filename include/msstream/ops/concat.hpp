// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>

#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <vector>

namespace msstream::ops {

namespace detail {

// The bodies of the functions below.

[[nodiscard]] Floats concat(std::vector<Floats> const& blocks, std::source_location issued_at);
[[nodiscard]] std::vector<std::optional<Floats>> split(Floats const& packed,
                                                       std::span<std::int64_t const> widths,
                                                       std::vector<bool> const& wanted,
                                                       std::source_location issued_at);

}  // namespace detail

/// Returns the blocks side by side: block k [rows, width k] → [rows, sum of widths], float32. One
/// launch for up to 64 blocks. Asynchronous.
template <Runtime R>
[[nodiscard]] Tensor<float, R> concat(
    std::vector<Tensor<float, R>> const& blocks,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::concat(detail::untyped(blocks), issued_at));
}

/// Splits a packed tensor into blocks of the given widths, which must sum to the packed width: the
/// reverse of concat(). The result is null for a block that is not wanted. Throws
/// std::invalid_argument if the widths or the number of flags do not fit.
template <Runtime R>
[[nodiscard]] std::vector<std::optional<Tensor<float, R>>> split(
    Tensor<float, R> const& packed,
    std::span<std::int64_t const> widths,
    std::vector<bool> const& wanted,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::split(packed, widths, wanted, issued_at));
}

}  // namespace msstream::ops
