// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/common/bag_view.hpp"
#include "step/parallel/device_arrays.hpp"
#include "step/parallel/distinct_layout.hpp"

#include <msstream/ops/embedding_tables.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>

namespace msstream::detail {

class ShardedTablesState;

/// The distinct ids of one lookup, at home and where their rows are.
struct DistinctIds {
  ops::TableBags<AnyRuntime> bags;  ///< of this rank's samples in the tables at home
  TensorOf<std::int64_t> sent;      ///< the messages of ids to all ranks, and to itself
  TensorOf<std::int64_t> received;  ///< the messages of ids from all ranks
  TensorOf<std::int64_t> places;    ///< of each slot: its first row in its table at home
};

/// The rows of a lookup that came before it.
struct AheadRows {
  /// The messages of rows from all ranks.
  Floats rows;
  /// Messages of ids in which the rows are split into those that are here and those that the lookup
  /// gets. Without them, all rows are here.
  struct Split {
    TensorOf<std::int64_t> here;       ///< their positions in the messages that this rank has sent
    TensorOf<std::int64_t> late;       ///< the positions of the others
    TensorOf<std::int64_t> late_sent;  ///< the ids of this rank's rows that others get later
  };
  std::optional<Split> split = {};
};

/// Lookups for which each distinct row is sent once to a rank, which pools its bags itself.
class DistinctRows {
 public:
  DistinctRows(ShardedTablesState const& tables, std::source_location issued_at);

  /// Sends the distinct ids of bags.
  [[nodiscard]] DistinctIds exchange(ShardedTablesState const& tables,
                                     ops::TableBags<AnyRuntime> const& bags,
                                     std::source_location issued_at) const;
  /// Returns a tensor for the positions of maxima if a gradient of the lookup needs it.
  [[nodiscard]] std::optional<TensorOf<std::int32_t>> argmax_for(DistinctIds const& ids) const;
  /// Sends the rows of `ids` that no rank names in `others`; all if that is null.
  [[nodiscard]] AheadRows prefetch(ShardedTablesState const& tables,
                                   DistinctIds const& ids,
                                   DistinctIds const* others,
                                   std::source_location issued_at) const;
  [[nodiscard]] Floats lookup(ShardedTablesState const& tables,
                              DistinctIds const& ids,
                              std::optional<AheadRows> const& ahead,
                              std::optional<TensorOf<std::int32_t>> const& argmax,
                              std::source_location issued_at) const;
  /// Sends the sums of the gradients of the distinct rows to the ranks that have the rows, and adds
  /// those that come to the tape.
  void send_back(ShardedTablesState const& tables,
                 AnyTape& tape,
                 DistinctIds const& ids,
                 Floats const& gradient,
                 std::optional<TensorOf<std::int32_t>> const& argmax,
                 std::source_location issued_at) const;

 private:
  using Tables = ops::EmbeddingTables<AnyRuntime>;
  /// The blocks of a rank that are divided, or those that are replicated.
  struct Blocks {
    Tables const* tables;
    std::size_t first;  ///< among the blocks of the rank
    std::int64_t room;  ///< for the rows of a message
  };

  /// Returns the slots of the messages to all ranks.
  [[nodiscard]] ops::kernels::SlotsAtHome at_home(DistinctIds const& ids,
                                                  std::int64_t row_stride) const;
  /// Writes the messages of the rows of tables that the messages of ids name.
  void send_rows(Tables const& rows_of,
                 TensorOf<std::int64_t> const& ids,
                 std::size_t message,
                 Floats const& rows,
                 TensorOf<std::int64_t> const& counts,
                 std::source_location issued_at) const;
  /// Returns the messages of rows from all ranks; the messages of ids from them are `ids`.
  [[nodiscard]] Floats received_rows(ShardedTablesState const& tables,
                                     TensorOf<std::int64_t> const& ids,
                                     std::source_location issued_at) const;
  /// Copies the rows of messages to the tables at home.
  void place_rows(ops::kernels::PlacedRowsArgs args,
                  DistinctIds const& ids,
                  TensorOf<std::int64_t> const& numbers,
                  Floats const& rows,
                  std::source_location issued_at) const;
  /// Messages of ids without a flag, and of those with a flag.
  struct SplitIds {
    TensorOf<std::int64_t> without;
    TensorOf<std::int64_t> with;
  };
  [[nodiscard]] SplitIds split(ShardedTablesState const& tables,
                               TensorOf<std::int64_t> const& ids,
                               TensorOf<std::int32_t> const& flags,
                               bool at_home,
                               std::source_location issued_at) const;
  void add_rows(ShardedTablesState const& tables,
                AnyTape& tape,
                Blocks const& blocks,
                DistinctIds const& ids,
                Floats const& gradients,
                std::source_location issued_at) const;
  [[nodiscard]] TensorOf<std::int64_t> bounds_of(ShardedTablesState const& tables,
                                                 TensorOf<std::int64_t> const& values,
                                                 TensorOf<std::int64_t> const& count,
                                                 std::int64_t const* borders,
                                                 std::int64_t border_count,
                                                 std::source_location issued_at) const;

  DistinctLayout layout_;
  DeviceArrays arrays_;  ///< what the pointers point to
  ops::kernels::DistinctSlot const* slots_;
  ops::kernels::DistinctMessage const* messages_;
  std::int64_t const* borders_;
  std::int64_t const* rooms_;
  ops::kernels::ShardSlot const* bags_;
  ops::kernels::ShardMessage const* all_;
  ops::kernels::ShardRows const* all_rows_;
  std::uint32_t const* operations_;  ///< by which reports name the tables
  Floats elements_;                  ///< of the tables at home
  std::optional<Tables> at_home_;    ///< the distinct rows of the lookup that runs
};

}  // namespace msstream::detail
