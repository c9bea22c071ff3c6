// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "step/by_memory.hpp"
#include "step/finite_searches.hpp"
#include "step/gradient_sum.hpp"
#include "step/gradient_terms.hpp"
#include "step/grouped_ids.hpp"
#include "step/lookup_gradient.hpp"
#include "step/owned_parameters.hpp"
#include "step/seed_gradient.hpp"
#include "step/tape_draws.hpp"

#include <msstream/base/shape.hpp>
#include <msstream/memory/detail/block_ref.hpp>
#include <msstream/ops/bags.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/embedding_tables.hpp>
#include <msstream/step/detail/memory_range.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace msstream::detail {

/// Learns of the gradients of a backward as they come.
class GradientWatch {
 public:
  virtual ~GradientWatch() = default;
  /// Called before a tensor gets a gradient or a further one.
  virtual void before_gradient(MemoryRange const& elements) = 0;
  /// Called with the gradient of the output of a lookup in the table. Returns whether that of the
  /// table's rows is not to be added to the tape.
  [[nodiscard]] virtual bool takes_pooled(MemoryRange const& table, Floats const& gradient) = 0;
  /// Returns whether takes_pooled() would take the gradient of a lookup in these tables.
  [[nodiscard]] virtual bool wants_pooled(ops::EmbeddingTables<AnyRuntime> const& tables) const = 0;
  /// As above, for the output of a lookup in many tables.
  [[nodiscard]] virtual bool takes_pooled(ops::EmbeddingTables<AnyRuntime> const& tables,
                                          Floats const& gradient) = 0;
  /// Called when an operation has been played back and `left` operations have not.
  virtual void after_operation(std::size_t left) = 0;
};

/// The state of a GradientTape: the recorded operations and the gradients.
struct TapeState {
  /// The ids of a recorded lookup, as its backward groups them.
  struct LookedUpIds {
    ops::Bags<AnyRuntime> bags;
    ops::Pooling pooling;
  };
  /// A table or a view of a table in which a recorded lookup was made.
  struct LookedUp {
    MemoryRange range;
    Held<Shape> table;
    std::optional<LookedUpIds> ids;  ///< null if they are not known before the backward
  };
  [[nodiscard]] static LookedUp looked_up_in(AnyTensor const& table) {
    return {MemoryRange::of(table), {table.block(), table.shape()}, std::nullopt};
  }
  /// The tables of a recorded lookup in many.
  struct LookedUpMany {
    ops::EmbeddingTables<AnyRuntime> tables;
    std::optional<ops::TableBags<AnyRuntime>> bags;  ///< null unless the gradient is offered
  };
  using LookedUpTables = std::variant<std::monostate, LookedUp, LookedUpMany>;
  /// The gradient that a table or a view of it gets from one lookup.
  struct Lookup {
    Shape table;
    LookupGradient part;
  };
  /// The gradient of one lookup in a view, seen from a requested table: row 0 of `part` is row
  /// `first_row` of the table, which may be negative.
  struct LookupOfTable {
    LookupGradient const* part;
    std::int64_t first_row;
    bool is_whole;  ///< whether the lookup was made in exactly the table's rows
  };
  /// The backward of an operation with a result of float32, or of any floating-point type.
  using PlayBack = std::variant<AnyTape::Backward, AnyTape::AnyBackward>;
  struct Node {
    std::string name;
    std::shared_ptr<std::string const> scope;  ///< the name scopes of the operation, or null
    AnyTensor output;
    std::shared_ptr<StreamGroup> group;
    LookedUpTables looked_up;
    PlayBack play_back;
    std::source_location issued_at;  ///< the source location of the operation
    std::size_t first_read;          ///< the index in `reads` of the first input that it noted
  };

  explicit TapeState(std::shared_ptr<DeviceState> of) : device(std::move(of)) {}

  void record(std::string_view name,
              AnyTensor output,
              LookedUpTables looked_up,
              PlayBack backward,
              std::source_location issued_at);
  /// Searches the gradient of a tensor for NaN and infinity, if the tape has a NonFiniteLocator.
  void search_gradient(AnyTensor const& of,
                       AnyTensor const& gradient,
                       std::optional<TensorOf<std::int64_t>> const& row_count,
                       std::source_location issued_at);
  /// Records that a lookup has no gradient, for error messages. Ignores a lookup in the result of a
  /// recorded operation, because that operation then has no gradient either.
  void keep_unreached(LookedUpTables looked_up);
  /// Returns whether the table shares elements with the result of a recorded operation, which gets
  /// a dense gradient.
  [[nodiscard]] bool is_result(AnyTensor const& table) const {
    return recorded.overlaps(MemoryRange::of(table));
  }
  /// Adds a row-sparse gradient of a table that wants one.
  void add_rows(AnyTensor const& table, ops::detail::TableGradient rows);
  /// Throws std::logic_error if `range` overlaps the result of a recorded operation, and no such
  /// result contains all of `range`.
  void refuse_results_within(MemoryRange const& range, Shape const& shape) const;
  /// Returns the gradients of all lookups in the table or in views of its rows. Throws
  /// std::logic_error if a lookup was made in a view whose rows are not rows of the table.
  [[nodiscard]] std::vector<LookupOfTable> lookups_of(AnyTensor const& table) const;

  /// Returns what expires when the gradients are dropped: with clear() or with the tape.
  [[nodiscard]] std::weak_ptr<void const> while_kept() {
    if (kept == nullptr) {
      kept = std::make_shared<char>();
    }
    return kept;
  }

  std::shared_ptr<DeviceState> device;
  std::shared_ptr<void const> kept;  ///< null until while_kept() is called after clear()
  std::int64_t backward_count = 0;   ///< the number of backward() calls since clear()
  std::vector<Node> nodes;
  std::vector<MemoryRange> reads;  ///< the noted inputs of all operations, in their order
  std::size_t recorded_reads = 0;  ///< the number of reads of operations that are recorded
  GradientWatch* watch = nullptr;  ///< null without a DataParallel
  /// Notes that a LossScale, given by its address, scales the gradients of the current backward().
  void note_scale(float const* scale) {
    has_mixed_scales |= loss_scale != nullptr && loss_scale != scale;
    loss_scale = scale;
  }
  /// The address of the LossScale that scaled the gradients of the last backward() since clear();
  /// null without one.
  float const* loss_scale = nullptr;
  bool has_mixed_scales = false;  ///< whether not all gradients since clear() have that scale
  bool is_reduced = false;        ///< whether gradients are sums over ranks, since clear()
  HeldSums gradients;
  std::vector<HeldSums::Entry> taken;                 ///< gradients of the current node's output
  ByMemory<Held<std::vector<Lookup>>> row_gradients;  ///< at least one per range
  ByMemory<memory::BlockRef> excluded;
  ByMemory<Shape> recorded;
  ByMemory<Held<Shape>> unreached;  ///< tables whose lookups got no gradient
  std::vector<std::shared_ptr<OwnedParameters const>> stepped;
  GroupedIds unique_rows;
  SeedGradient seed;
  TapeDraws draws;
  std::unique_ptr<FiniteSearches> searches;  ///< null without a NonFiniteLocator
  Node const* playing = nullptr;             ///< the operation that is played back
};

}  // namespace msstream::detail
