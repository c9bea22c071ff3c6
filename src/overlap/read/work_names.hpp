// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

#include <string>
#include <string_view>

namespace msstream::overlap {

/// A copy's direction and kinds of memory, or a fill's kind of memory in `target`.
struct Movement {
  CopyDirection direction = CopyDirection::unknown;
  MemoryKind source = MemoryKind::unknown;
  MemoryKind target = MemoryKind::unknown;

  friend bool operator==(Movement const&, Movement const&) = default;
};

/// Understands "Memcpy HtoD (Pageable -> Device)", "Memset (Device)" and AMD's "CopyHostToDevice".
[[nodiscard]] Movement movement_of(std::string_view name);

/// Returns the name of a copy or a fill as PyTorch's profiler writes it.
[[nodiscard]] std::string name_of_copy(Movement const& movement);
[[nodiscard]] std::string name_of_fill(MemoryKind target);

/// Returns "Pageable", "Pinned", "Device", "Managed" or "Unknown".
[[nodiscard]] std::string_view name_of(MemoryKind kind);
[[nodiscard]] MemoryKind memory_kind_of(std::string_view name);

/// Returns which collective operation a kernel of NCCL or RCCL does, such as "allreduce", by the
/// kernel's name; empty for any other kernel.
[[nodiscard]] std::string_view collective_of(std::string_view kernel);

/// Returns the bytes of an element whose type PyTorch calls `dtype`; 0 if unknown.
[[nodiscard]] int bytes_of_dtype(std::string_view dtype);

/// Understands CUPTI's names of overheads, such as "Lazy Function Loading".
[[nodiscard]] OverheadKind overhead_kind_of(std::string_view name);

}  // namespace msstream::overlap
