// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/comm/collective_kind.hpp>
#include <msstream/comm/reduction.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>

namespace msstream::comm::detail {

using comm::CollectiveKind;

/// The agreement of a collective: ranks that meet must have equal descriptions, except that send
/// meets receive.
struct Collective {
  CollectiveKind kind;
  DType dtype = DType::uint8;
  /// The number of elements: of the tensor of an operation in place, of the smaller tensor of
  /// reduce_scatter and all_gather, and of the input of all_to_all.
  std::int64_t count = 0;
  Reduction reduction = Reduction::sum;  ///< of all_reduce and reduce_scatter
  int peer = 0;               ///< the root of broadcast, the other rank of send and receive
  std::int64_t capacity = 0;  ///< rows for each rank, of all_to_all_counted
  /// The places of the tensors in symmetric memory, where they must be equal on all ranks: NCCL's
  /// of both, and that of the output alone for copy engines. -1: elsewhere, or any.
  std::int64_t input_place = -1;
  std::int64_t output_place = -1;
};

/// One rank's part of a collective: its agreement, its memory, and the place where it was issued.
struct Part {
  Collective what;
  void const* input = nullptr;
  void* output = nullptr;
  /// The rows for each rank and from each rank, of all_to_all_counted.
  std::int64_t const* counts = nullptr;
  std::int64_t* received = nullptr;
  std::source_location issued_at = {};
  bool is_captured = false;  ///< whether it is issued in a capture, whose replays run it
};

/// Returns a text such as "all_reduce of 16 float32 (sum) at train.cpp:31".
[[nodiscard]] std::string to_string(Part const& part);

[[nodiscard]] inline bool is_between_two(Collective const& what) noexcept {
  return what.kind == CollectiveKind::send || what.kind == CollectiveKind::receive;
}
/// Returns whether a rank's collective cannot end without `rank`.
[[nodiscard]] inline bool needs(Collective const& what, int rank) noexcept {
  return !is_between_two(what) || what.peer == rank;
}
/// Returns the bytes that a rank gives to a collective of `ranks`.
[[nodiscard]] std::size_t bytes_given(Collective const& what, int ranks) noexcept;
/// Returns the bytes that a rank gives to each rank of a collective of all, at most.
[[nodiscard]] std::size_t bytes_for_each(Collective const& what, int ranks) noexcept;
/// Returns whether two collectives that need each other are two parts of one.
[[nodiscard]] bool agree(Collective const& a, Collective const& b) noexcept;

}  // namespace msstream::comm::detail
