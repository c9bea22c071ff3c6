// SPDX-License-Identifier: Apache-2.0
#include "comm/carry_out.hpp"

#include "comm/elements/combined.hpp"

#include <msstream/base/dtype.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace msstream::comm::detail {
namespace {

/// The number of elements that are combined at a time, so that they stay in the first cache.
constexpr std::int64_t kBlock = 512;

template <class T>
[[nodiscard]] auto widened(T value) {
  if constexpr (std::integral<T>) {
    return value;
  } else {
    return to_float(value);
  }
}
template <class T, class C>
[[nodiscard]] T narrowed(C value) {
  if constexpr (std::integral<T>) {
    return value;
  } else {
    return from_float<T>(value);
  }
}

/// Combines elements [begin, begin + result.size()) of all inputs in the order of the ranks.
template <class T>
void combine(Inputs inputs,
             Reduction reduction,
             std::int64_t begin,
             std::span<Combined<T>> result) {
  bool is_first = true;
  for (auto const* const of_rank : inputs) {
    auto const* const input = static_cast<T const*>(of_rank) + begin;
    for (std::size_t i = 0; i < result.size(); ++i) {
      auto const value = widened(input[i]);
      result[i] = is_first ? value : combined(result[i], value, reduction);
    }
    is_first = false;
  }
  if constexpr (!std::integral<T>) {
    if (reduction == Reduction::mean) {
      for (auto& value : result) {
        value /= static_cast<float>(inputs.size());
      }
    }
  }
}

/// Combines elements [begin, end) of all inputs, and passes each block to `write(at, values)`.
template <class T, class Write>
void reduce(
    Inputs inputs, Reduction reduction, std::int64_t begin, std::int64_t end, Write const& write) {
  std::array<Combined<T>, kBlock> buffer;
  for (std::int64_t at = begin; at < end; at += kBlock) {
    std::span const values(buffer.data(), static_cast<std::size_t>(std::min(kBlock, end - at)));
    combine<T>(inputs, reduction, at, values);
    write(at, values);
  }
}

template <class T, class C>
void store(void* output, std::int64_t at, std::span<C> values) {
  auto* const to = static_cast<T*>(output) + at;
  for (std::size_t i = 0; i < values.size(); ++i) {
    to[i] = narrowed<T>(values[i]);
  }
}

[[nodiscard]] std::vector<void const*> inputs_of(Parts parts) {
  std::vector<void const*> inputs;
  for (auto const* const part : parts) {
    inputs.push_back(part->input);
  }
  return inputs;
}

/// Combines one rank's share of the elements, and gives it to all ranks.
template <class T>
void all_reduce(int rank, Parts parts) {
  auto const& what = parts[static_cast<std::size_t>(rank)]->what;
  auto const ranks = static_cast<std::int64_t>(parts.size());
  // The quotient and the rest are used one by one, because the product may not fit.
  auto const bound = [&](std::int64_t of) {
    return what.count / ranks * of + what.count % ranks * of / ranks;
  };
  reduce<T>(inputs_of(parts),
            what.reduction,
            bound(rank),
            bound(rank + 1),
            [&](std::int64_t at, auto values) {
              for (auto const* const part : parts) {
                store<T>(part->output, at, values);
              }
            });
}

template <class T>
void reduce_scatter(int rank, Parts parts) {
  auto const& mine = *parts[static_cast<std::size_t>(rank)];
  auto const begin = mine.what.count * rank;
  reduce<T>(inputs_of(parts),
            mine.what.reduction,
            begin,
            begin + mine.what.count,
            [&](std::int64_t at, auto values) { store<T>(mine.output, at - begin, values); });
}

void copy(
    void* to, std::size_t to_byte, void const* from, std::size_t from_byte, std::size_t bytes) {
  auto* const target = static_cast<std::byte*>(to) + to_byte;
  auto const* const source = static_cast<std::byte const*>(from) + from_byte;
  if (bytes != 0 && target != source) {  // an input may be a part of the output
    std::memcpy(target, source, bytes);
  }
}

/// Copies this rank's part of each input to the part of the other rank in its output. Of the parts,
/// the first `bytes_of(rank)` bytes are copied.
template <class Bytes>
void exchange(int rank, Parts parts, std::size_t part_bytes, Bytes const& bytes_from) {
  auto const& mine = *parts[static_cast<std::size_t>(rank)];
  for (std::size_t other = 0; other < parts.size(); ++other) {
    copy(mine.output,
         other * part_bytes,
         parts[other]->input,
         static_cast<std::size_t>(rank) * part_bytes,
         bytes_from(other));
  }
}

void all_to_all_counted(int rank, Parts parts, std::size_t bytes) {
  auto const& mine = *parts[static_cast<std::size_t>(rank)];
  auto const part_bytes = bytes / parts.size();
  auto const row_bytes =
      mine.what.capacity == 0 ? 0 : part_bytes / static_cast<std::size_t>(mine.what.capacity);
  exchange(rank, parts, part_bytes, [&](std::size_t other) {
    auto const rows = parts[other]->counts[rank];
    mine.received[other] = rows;
    return static_cast<std::size_t>(rows) * row_bytes;
  });
}

}  // namespace

void combine_inputs(Collective const& what, Inputs inputs, void* output) {
  with_type(what.dtype, [&](auto of) {
    using T = decltype(of);
    reduce<T>(inputs, what.reduction, 0, what.count, [&](std::int64_t at, auto values) {
      store<T>(output, at, values);
    });
  });
}

void carry_out(int rank, Parts parts) {
  auto const& mine = *parts[static_cast<std::size_t>(rank)];
  auto const& what = mine.what;
  auto const bytes = static_cast<std::size_t>(what.count) * bytes_of(what.dtype);
  switch (what.kind) {
    case CollectiveKind::all_reduce:
      return with_type(what.dtype, [&](auto of) { all_reduce<decltype(of)>(rank, parts); });
    case CollectiveKind::reduce_scatter:
      return with_type(what.dtype, [&](auto of) { reduce_scatter<decltype(of)>(rank, parts); });
    case CollectiveKind::all_gather:
      for (std::size_t other = 0; other < parts.size(); ++other) {
        copy(mine.output, other * bytes, parts[other]->input, 0, bytes);
      }
      return;
    case CollectiveKind::all_to_all:
      return exchange(
          rank, parts, bytes / parts.size(), [&](std::size_t) { return bytes / parts.size(); });
    case CollectiveKind::all_to_all_counted:
      return all_to_all_counted(rank, parts, bytes);
    case CollectiveKind::broadcast:
      if (rank != what.peer) {
        copy(mine.output, 0, parts[static_cast<std::size_t>(what.peer)]->input, 0, bytes);
      }
      return;
    case CollectiveKind::receive:
      return copy(mine.output, 0, parts[static_cast<std::size_t>(what.peer)]->input, 0, bytes);
    case CollectiveKind::send:
    case CollectiveKind::barrier:
      return;
  }
}

}  // namespace msstream::comm::detail
