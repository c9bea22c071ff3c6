// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/show/explained.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::overlap {

/// The work that the devices of a report did in its window, without its times: equal for two
/// recordings of equal work.
struct WorkDone {
  struct Ranges {
    std::uint64_t count = 0;
    Ns time = 0;  ///< the sum of their lengths
  };
  using Counts = std::map<std::string, std::int64_t, std::less<>>;

  Counts kernels = {};      ///< launches by name; fills too
  std::int64_t graphs = 0;  ///< launches of whole graphs, whose kernels the recording lacks
  Counts copied = {};       ///< bytes by direction; kUnknown if the recording lacks those of a copy
  /// Ranges that a program names, by name with `*` for each number: steps, if it has any.
  std::map<std::string, Ranges, std::less<>> ranges = {};
};

/// Returns the work that has a part in the window of a report, on its devices.
[[nodiscard]] WorkDone work_of(Explained const& explained);

/// Whether two recordings did equal work.
struct WorkComparison {
  enum class Verdict : std::uint8_t {
    equal,
    similar,    ///< no count differs by more than 1%
    different,  ///< the times are not comparable
    unknown,    ///< no other count differs, but the kernels of graphs, or all counts, are missing
  };
  /// A count that differs.
  struct Difference {
    std::string what;  ///< "kernel", "bytes", "ranges"
    std::string name;
    std::int64_t before = 0;
    std::int64_t after = 0;
  };
  /// The longest ranges that both have, and one several times: steps.
  struct Steps {
    std::string name;
    WorkDone::Ranges before;
    WorkDone::Ranges after;
  };

  Verdict verdict = Verdict::unknown;
  std::string text;                 ///< sentences that say so, and what follows
  std::int64_t kernels_before = 0;  ///< of all names
  std::int64_t kernels_after = 0;
  std::int64_t graphs_before = 0;  ///< launches of whole graphs
  std::int64_t graphs_after = 0;
  std::vector<Difference> differences;  ///< bytes and ranges, then kernels, the largest first
  std::optional<Steps> steps;
};

/// Compares the work of two recordings; a report of an older version of the tool has no counts.
[[nodiscard]] WorkComparison compare_work(std::optional<WorkDone> const& before,
                                          std::optional<WorkDone> const& after);

/// Returns the verdict's name in JSON: "equal", "similar", "different" or "unknown".
[[nodiscard]] std::string_view id_of(WorkComparison::Verdict verdict) noexcept;
/// Returns a difference in words, such as `kernel add: 20 → 10`.
[[nodiscard]] std::string text_of(WorkComparison::Difference const& difference);

}  // namespace msstream::overlap
