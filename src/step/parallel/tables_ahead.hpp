// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/mail/row_buffers.hpp"
#include "ops/embedding/tables_gradient.hpp"
#include "step/by_memory.hpp"
#include "step/parallel/rows_of_ranks.hpp"

#include <msstream/comm/detail/any_communicator.hpp>
#include <msstream/ops/embedding_tables.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <vector>

namespace msstream::detail {

/// A lookup in many tables, of whose output each rank sends the gradient, and the ids of all ranks,
/// gathered before the backward.
struct TablesAhead {
  ops::EmbeddingTables<AnyRuntime> tables;
  std::vector<std::size_t> numbers;  ///< by table of the lookup, its number in the step
  ops::TableBags<AnyRuntime> own;    ///< of this rank
  std::int64_t capacity;             ///< as many samples as each rank sends
  ops::TableBags<AnyRuntime> bags;   ///< of ranks * capacity samples; ids of padding are -1
  /// The positions of `bags`, with room for the gradients of the outputs of all ranks.
  ops::detail::GroupedTables grouped;
};

/// The recorded lookups in many tables that may send gradients of outputs: those that have a fixed
/// number of ids a bag, pool no maxima, have no default ids, and are the only ones in each of their
/// tables.
class LookupsInMany {
 public:
  /// The numbers that a rank tells the others of a table. All are 0 for a table in no such lookup.
  struct Told {
    std::int64_t lookup = 0;   ///< 1 + the number of its first table in the step
    std::int64_t place = 0;    ///< of the table in the lookup
    std::int64_t samples = 0;  ///< of this rank
    std::int64_t kind = 0;     ///< tells the hotness, the pooling and the type of the ids
    std::int64_t tables = 0;   ///< of the lookup
  };
  static constexpr std::size_t kToldNumbers = 5;
  static constexpr std::array<std::int64_t, kToldNumbers> kTellsNothing{};

  LookupsInMany(AnyTape const& tape, std::vector<NamedTable> const& tables);

  /// Returns the number of recorded lookups, of any kind, in a table or a part of it.
  [[nodiscard]] int lookups_of(std::size_t table) const { return used_[table]; }

  [[nodiscard]] std::array<std::int64_t, kToldNumbers> told_of(std::size_t table) const;
  /// Gathers the ids of the lookups that all ranks have alike and whose outputs are fewer bytes to
  /// send than their rows, where a collective counts as so many bytes as it costs. `told_by[rank]`
  /// begins the numbers of a table at `table * stride + first`. Also groups the ids of all ranks.
  /// Issued to the communicator's group.
  [[nodiscard]] std::vector<TablesAhead> gathered(
      std::vector<std::vector<std::int64_t>> const& told_by,
      std::size_t stride,
      std::size_t first,
      comm::detail::AnyCommunicator const& communicator,
      comm::detail::RowBuffers& buffers,
      std::source_location issued_at) const;

 private:
  struct Lookup {
    ops::EmbeddingTables<AnyRuntime> tables;
    ops::TableBags<AnyRuntime> bags;
    std::vector<std::size_t> numbers;
  };

  /// Returns the numbers of the tables of a lookup; null if its outputs may not be sent.
  [[nodiscard]] std::optional<std::vector<std::size_t>> numbers_of(
      AnyTape const& tape,
      ops::EmbeddingTables<AnyRuntime> const& tables,
      std::optional<ops::TableBags<AnyRuntime>> const& bags);
  [[nodiscard]] bool saves_bytes(Lookup const& lookup, std::int64_t samples) const;

  std::vector<NamedTable> const& tables_;
  ByMemory<std::size_t> numbers_;  ///< of the tables
  std::vector<int> used_;          ///< by table, in how many recorded lookups it is
  std::vector<Lookup> lookups_;    ///< by the number of the first table
  std::vector<Told> told_;
};

}  // namespace msstream::detail
