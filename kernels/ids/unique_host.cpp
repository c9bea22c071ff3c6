// SPDX-License-Identifier: Apache-2.0
#include "common/existing_places.hpp"
#include "common/require_int32.hpp"
#include "common/workspace_layout.hpp"
#include "ids/hash_functions.hpp"
#include "ids/unique.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>

namespace msstream::ops::kernels {
namespace {

/// Returns the number of slots of a hash table that is at most half full with `capacity` distinct
/// ids. Each slot has the number of a distinct id, or -1.
std::int64_t slots_for(std::int64_t capacity) {
  return static_cast<std::int64_t>(std::bit_ceil(2 * static_cast<std::uint64_t>(capacity) + 1));
}

struct DistinctMemory {
  std::int32_t* slots;    ///< [slots_for(capacity)]
  std::int32_t* order;    ///< [capacity]
  std::int32_t* numbers;  ///< [capacity]
  std::size_t bytes;

  DistinctMemory(void* memory, std::int64_t capacity) {
    WorkspaceLayout workspace(memory);
    slots = workspace.take<std::int32_t>(slots_for(capacity));
    order = workspace.take<std::int32_t>(capacity);
    numbers = workspace.take<std::int32_t>(capacity);
    bytes = workspace.bytes();
  }
};

template <class Id>
class Distinct {
 public:
  Distinct(UniqueArgs const& args, DistinctMemory const& memory)
      : args_(args),
        values_(static_cast<Id*>(args.values)),
        slots_(memory.slots),
        mask_(static_cast<std::uint64_t>(slots_for(args.problem.capacity)) - 1),
        order_(memory.order),
        numbers_(memory.numbers) {}

  void find() {
    auto const capacity = args_.problem.capacity;
    auto const existing = existing_places(args_.count, capacity);
    std::fill_n(slots_, mask_ + 1, -1);
    for (std::int64_t i = 0; i < existing; ++i) {
      args_.inverse[i] = number_of(args_.ids.at(i));
    }
    if (args_.problem.order == UniqueOrder::ascending) {
      renumber(existing);
    }
    *args_.unique_count = uniques_;
  }

 private:
  /// Returns the number of an id in order of first occurrence, and counts the occurrence. Returns
  /// -1 for an id that is left out.
  std::int64_t number_of(std::int64_t id) {
    if (args_.problem.below > 0 && !is_in_range(id, args_.problem.below)) {
      return -1;
    }
    auto slot = mix(static_cast<std::uint64_t>(id)) & mask_;
    while (slots_[slot] >= 0 && values_[slots_[slot]] != static_cast<Id>(id)) {
      slot = (slot + 1) & mask_;
    }
    if (slots_[slot] < 0) {
      slots_[slot] = static_cast<std::int32_t>(uniques_);
      values_[uniques_] = static_cast<Id>(id);
      args_.counts[uniques_++] = 0;
    }
    ++args_.counts[slots_[slot]];
    return slots_[slot];
  }

  void renumber(std::int64_t existing) {
    std::iota(order_, order_ + uniques_, 0);
    std::sort(order_, order_ + uniques_, [&](auto a, auto b) { return values_[a] < values_[b]; });
    for (std::int64_t u = 0; u < uniques_; ++u) {
      numbers_[order_[u]] = static_cast<std::int32_t>(u);
    }
    for (std::int64_t i = 0; i < existing; ++i) {
      if (args_.inverse[i] >= 0) {
        args_.inverse[i] = numbers_[args_.inverse[i]];
      }
    }
    permute(values_);
    permute(args_.counts);
  }
  /// Sorts an array with one element per distinct id into ascending order of the ids, cycle by
  /// cycle.
  template <class T>
  void permute(T* values) {
    auto* const targets = slots_;  // reuses the memory of the hash table, which is no longer needed
    std::copy_n(numbers_, uniques_, targets);
    for (std::int64_t u = 0; u < uniques_; ++u) {
      while (targets[u] != u) {
        auto const target = targets[u];
        std::swap(values[u], values[target]);
        std::swap(targets[u], targets[target]);
      }
    }
  }

  UniqueArgs const& args_;
  Id* values_;
  std::int32_t* slots_;
  std::uint64_t mask_;
  std::int32_t* order_;
  std::int32_t* numbers_;
  std::int64_t uniques_ = 0;
};

}  // namespace

std::size_t unique_workspace_bytes(HostStream, UniqueProblem const& problem) {
  return DistinctMemory(nullptr, problem.capacity).bytes;
}

void unique(HostStream stream, UniqueArgs const& args) {
  require_int32("unique", args.problem.capacity, "ids at most");
  stream.run([args] {
    DistinctMemory const memory(args.workspace, args.problem.capacity);
    if (args.problem.is_wide) {
      Distinct<std::int64_t>(args, memory).find();
    } else {
      Distinct<std::int32_t>(args, memory).find();
    }
  });
}

}  // namespace msstream::ops::kernels
