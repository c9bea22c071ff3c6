// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "step/by_memory.hpp"
#include "step/gradient_sum.hpp"
#include "step/gradient_terms.hpp"
#include "step/grouped_ids.hpp"
#include "step/owned_parameters.hpp"
#include "step/seed_gradient.hpp"

#include <msstream/base/shape.hpp>
#include <msstream/memory/detail/block_ref.hpp>
#include <msstream/step/detail/memory_range.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::detail {

/// The records and gradients of a GradientTape.
struct TapeState {
  /// A table or a view of a table in which a recorded lookup was made.
  struct LookedUp {
    MemoryRange range;
    Held<Shape> table;
  };
  /// The gradient that one lookup gave to its table or view.
  struct Lookup {
    Shape table;
    AnyTape::RowGradientPart part;
  };
  /// The gradient of one lookup, seen from a requested table: row 0 of the part is `first_row` of
  /// the table, which may be negative.
  struct LookupOfTable {
    AnyTape::RowGradientPart const* part;
    std::int64_t first_row;
    bool is_whole;  ///< whether the part covers exactly the table's rows
  };
  struct Node {
    std::string name;
    std::shared_ptr<std::string const> scope;  ///< the name scopes around it, or null
    Floats output;
    std::shared_ptr<StreamGroup> group;
    std::optional<LookedUp> looked_up;
    AnyTape::Backward play_back;
    std::source_location issued_at;  ///< of the recorded operation
  };

  explicit TapeState(std::shared_ptr<DeviceState> of) : device(std::move(of)) {}

  void record(std::string_view name,
              Floats output,
              std::optional<LookedUp> looked_up,
              AnyTape::Backward backward,
              std::source_location issued_at);
  /// Notes that a lookup got no gradient. A lookup in a recorded result is not noted, because the
  /// operation that made the result then gets none, too.
  void keep_unreached(std::optional<LookedUp> looked_up);
  /// Throws std::logic_error if a recorded result is a part of the range, and not all of it.
  void refuse_results_within(MemoryRange const& range, Shape const& shape) const;
  /// Returns the gradients of lookups in the table or in views of its rows. Throws std::logic_error
  /// for lookups in views whose rows are not rows of the table.
  [[nodiscard]] std::vector<LookupOfTable> lookups_of(AnyTensor const& table) const;

  std::shared_ptr<DeviceState> device;
  bool played_back = false;  ///< since clear()
  std::vector<Node> nodes;
  HeldSums gradients;
  std::vector<HeldSums::Entry> taken;                 ///< gradients of the node that is played back
  ByMemory<Held<std::vector<Lookup>>> row_gradients;  ///< at least one per range
  ByMemory<memory::BlockRef> excluded;
  ByMemory<Shape> recorded;
  ByMemory<Held<Shape>> unreached;  ///< tables of lookups whose results have no gradient
  std::vector<std::shared_ptr<OwnedParameters const>> stepped;
  GroupedIds unique_rows;
  SeedGradient seed;
};

}  // namespace msstream::detail
