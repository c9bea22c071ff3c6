// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/common/bag_view.hpp"
#include "ops/common/id_trap.hpp"
#include "ops/embedding/tables_gradient.hpp"
#include "step/parallel/device_arrays.hpp"
#include "step/parallel/distinct_rows.hpp"
#include "step/parallel/pooled_ahead.hpp"
#include "step/parallel/table_layout.hpp"

#include <msstream/comm/detail/any_communicator.hpp>
#include <msstream/ops/embedding_tables.hpp>
#include <msstream/step/sharded_tables.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace msstream::detail {

/// The bags of one lookup: those of all ranks in the tables of this one.
struct ExchangedIds {
  std::shared_ptr<ShardedTablesState const> tables;
  std::int64_t samples;  ///< of this rank
  /// For the blocks of this rank, ids and offsets of most_samples bags of each rank.
  std::optional<ops::TableBags<AnyRuntime>> received;
  /// For the replicated tables, most_samples bags of this rank.
  std::optional<ops::TableBags<AnyRuntime>> own;
  std::optional<Floats> divisors;  ///< [tables that are divided at home, samples]
  /// In the place of all these if distinct rows are sent.
  std::optional<DistinctIds> distinct = {};
  std::optional<AheadRows> ahead = {};           ///< distinct rows that have been prefetched
  std::optional<PooledAhead> pooled_ahead = {};  ///< pooled rows that have been prefetched
  /// The number of backwards of lookups of these bags.
  std::shared_ptr<std::int64_t> backwards = std::make_shared<std::int64_t>(0);
  /// The bags beside which rows have been prefetched, and what had been counted by then.
  struct Beside {
    std::shared_ptr<std::int64_t const> backwards;
    std::int64_t of_bags;
    std::int64_t of_tables;
  };
  std::optional<Beside> beside = {};
};

/// Returns the bags of so many tables as kernels read them.
[[nodiscard]] ops::kernels::ShardBags shard_bags_of(std::int64_t tables,
                                                    ops::TableBags<AnyRuntime> const& bags);

/// The lookups that have been played back and whose gradients an update may still apply: those
/// since the last update, on tapes that have not dropped them.
class NotUpdated {
 public:
  /// Returns the number of updates, which an optimizer counts from now on.
  [[nodiscard]] std::shared_ptr<std::int64_t> const& counted() {
    is_counted_ = true;
    return updates_;
  }
  /// Notes that a lookup of bags, which their number of backwards stands for, is played back on a
  /// tape that keeps `gradients` as long as the gradients.
  void note(std::shared_ptr<std::int64_t> const& bags, std::weak_ptr<void const> gradients) {
    forget();
    waiting_.push_back({bags, std::move(gradients)});
  }
  /// Returns whether rows wait for an update by lookups of other bags than these. False without an
  /// optimizer.
  [[nodiscard]] bool has_others_than(std::shared_ptr<std::int64_t> const& bags) {
    forget();
    return is_counted_ &&
           std::ranges::any_of(waiting_, [&](auto const& lookup) { return lookup.bags != bags; });
  }

 private:
  struct Lookup {
    std::shared_ptr<std::int64_t> bags;
    std::weak_ptr<void const> gradients;
  };
  void forget() {
    bool const is_updated = std::exchange(seen_, *updates_) != *updates_;
    std::erase_if(waiting_,
                  [&](auto const& lookup) { return is_updated || lookup.gradients.expired(); });
  }

  std::shared_ptr<std::int64_t> updates_ = std::make_shared<std::int64_t>(0);
  std::int64_t seen_ = 0;
  bool is_counted_ = false;
  std::vector<Lookup> waiting_;
};

/// The parts of all tables that a rank has, and the arrays in device memory by which messages are
/// written and read.
class ShardedTablesState : public std::enable_shared_from_this<ShardedTablesState> {
 public:
  ShardedTablesState(std::vector<TableSpec> tables,
                     comm::detail::AnyCommunicator const& communicator,
                     ShardedTablesOptions const& options,
                     TablePlan plan,
                     std::source_location issued_at);

  [[nodiscard]] std::shared_ptr<ExchangedIds const> exchange(ops::TableBags<AnyRuntime> const& bags,
                                                             bool is_ahead,
                                                             std::source_location issued_at) const;
  /// Sends the rows of `ids` that `now` does not name ahead, or all if that is null.
  [[nodiscard]] std::shared_ptr<ExchangedIds const> prefetch_rows(
      ExchangedIds const& ids, ExchangedIds const* now, std::source_location issued_at) const;
  [[nodiscard]] Floats lookup(AnyTape* tape,
                              std::shared_ptr<ExchangedIds const> const& ids,
                              std::source_location issued_at) const;

  /// A part of a table that the rank has.
  struct Part {
    TableBlock block;
    AnyTensor weights;
  };
  [[nodiscard]] std::vector<TableSpec> const& tables() const noexcept { return tables_; }
  [[nodiscard]] TablePlan const& plan() const noexcept { return plan_; }
  [[nodiscard]] TableLayout const& layout() const noexcept { return layout_; }
  [[nodiscard]] std::vector<Part> const& parts() const noexcept { return parts_; }
  [[nodiscard]] ShardedTablesOptions const& options() const noexcept { return options_; }
  using Tables = ops::EmbeddingTables<AnyRuntime>;
  using Bags = ops::TableBags<AnyRuntime>;
  /// Returns the blocks that no other rank has, if there are any.
  [[nodiscard]] std::optional<Tables> const& divided() const noexcept { return divided_; }
  [[nodiscard]] std::optional<Tables> const& replicated() const noexcept { return replicated_; }
  [[nodiscard]] std::int64_t ranks() const noexcept;
  [[nodiscard]] TableLayout::OfRank const& own() const;
  /// Returns what gradients are multiplied by for the mean over all parts of a batch.
  [[nodiscard]] float scale() const noexcept;
  [[nodiscard]] std::shared_ptr<DeviceState> const& device() const noexcept { return device_; }
  [[nodiscard]] comm::detail::AnyCommunicator const& communicator() const noexcept {
    return communicator_;
  }
  [[nodiscard]] NotUpdated& updates() const noexcept { return *not_updated_; }
  /// Sends the rows that have been looked up ahead and wait for the gradients of a lookup.
  void send_ahead() const;

  /// Returns the report of ids that no table has, with the tables' names and the rank, and adds
  /// what it writes to `written`.
  [[nodiscard]] ops::kernels::IdReport report_of_ids(
      Uses<AnyRuntime, AccessMode::write>& written) const;

 private:
  void make_parts(std::uint64_t seed, std::source_location issued_at);
  void require_bags(Bags const& bags) const;
  /// Returns room for the weights of so many messages, if the bags have any.
  [[nodiscard]] std::optional<Floats> room_for_weights(Bags const& bags,
                                                       std::int64_t messages) const;
  [[nodiscard]] Bags receive(TensorOf<std::int64_t> const& messages,
                             std::optional<Floats> const& weights,
                             std::source_location issued_at) const;
  [[nodiscard]] std::optional<Floats> divisors_of(Bags const& bags,
                                                  std::source_location issued_at) const;
  /// Returns the pooled rows of this rank's samples, which the ranks that have the rows pool.
  [[nodiscard]] Floats joined_lookup(ExchangedIds const& ids,
                                     std::optional<TensorOf<std::int32_t>> const& argmax,
                                     std::source_location issued_at) const;
  /// Returns a tensor for the positions of maxima if a gradient of the lookup needs it.
  [[nodiscard]] std::optional<TensorOf<std::int32_t>> argmax_for(ExchangedIds const& ids) const;
  /// Returns the bags of all ranks' samples in the divided blocks.
  [[nodiscard]] Bags divided_bags(ExchangedIds const& ids) const;
  /// Returns the pooled rows of bags in the divided blocks.
  [[nodiscard]] Floats pooled(Bags const& bags,
                              std::optional<TensorOf<std::int32_t>> const& argmax,
                              std::source_location issued_at) const;
  /// Returns the messages with the pooled rows of all ranks' samples in the divided blocks.
  [[nodiscard]] Floats pooled_for_all(ExchangedIds const& ids,
                                      std::optional<TensorOf<std::int32_t>> const& argmax,
                                      std::source_location issued_at) const;
  /// Returns the messages of pooled rows from all ranks.
  [[nodiscard]] Floats received_rows(ExchangedIds const& ids,
                                     std::optional<TensorOf<std::int32_t>> const& argmax,
                                     std::source_location issued_at) const;
  /// Returns whether a tape has a lookup whose backward is still to come.
  [[nodiscard]] bool awaits_backward() const;
  /// Sends rows ahead, or if a tape has lookups that are still to be played back, leaves it to
  /// send_ahead().
  [[nodiscard]] std::shared_ptr<LaterSend> send_or_wait(std::function<void()> send) const;
  /// Pools and sends the bags of `ids` none of whose rows `now` names ahead, or all if that is
  /// null.
  [[nodiscard]] PooledAhead pooled_ahead(ExchangedIds const& ids,
                                         ExchangedIds const* now,
                                         std::source_location issued_at) const;
  /// Returns the messages of the rows that have not come ahead, and completes `argmax`.
  [[nodiscard]] Floats late_rows(ExchangedIds const& ids,
                                 std::optional<TensorOf<std::int32_t>> const& argmax,
                                 std::source_location issued_at) const;
  /// The ids of bags in the divided blocks that name no row of other bags, and of those that do.
  struct SplitBags {
    TensorOf<std::int64_t> early_ids;
    TensorOf<std::int64_t> late_ids;
    TensorOf<std::int64_t> before;  ///< as in PooledAhead::Split
  };
  [[nodiscard]] SplitBags split_bags(Bags const& bags,
                                     Bags const& touching,
                                     std::source_location issued_at) const;
  struct ExchangedBags {
    Floats rows;                 ///< the messages from all ranks
    std::function<void()> send;  ///< which fills them
  };
  /// Pools the early or the late bags. Without bags the rank has no divided blocks.
  [[nodiscard]] ExchangedBags exchanged_bags(Bags const* bags,
                                             TensorOf<std::int64_t> const& before,
                                             bool is_late,
                                             std::optional<TensorOf<std::int32_t>> const& argmax,
                                             std::source_location issued_at) const;
  [[nodiscard]] Floats join(ExchangedIds const& ids,
                            std::optional<Floats> const& received,
                            std::optional<Floats> const& late,
                            std::optional<Floats> const& of_replicated,
                            std::source_location issued_at) const;
  /// Groups the ids of a lookup, on the group of lookups ahead, beside what follows the lookup, for
  /// an output gradient that is to be received. Returns null if this rank has no tables, or
  /// receives more than the gradients of one lookup.
  [[nodiscard]] std::optional<ops::detail::GroupedTables> grouped_ahead(
      ExchangedIds const& ids,
      std::optional<TensorOf<std::int32_t>> const& argmax,
      std::source_location issued_at) const;
  /// Sends the gradient of the pooled rows to the ranks that have the rows, and adds those of this
  /// rank's blocks to the tape.
  void send_back(AnyTape& tape,
                 ExchangedIds const& ids,
                 Floats const& gradient,
                 std::optional<TensorOf<std::int32_t>> const& argmax,
                 std::optional<ops::detail::GroupedTables> const& ahead,
                 std::source_location issued_at) const;
  /// Returns the bags of `count` tables from `first` on.
  [[nodiscard]] static Bags bags_of(Bags const& bags, std::int64_t first, std::int64_t count);
  /// Adds the gradients of the rows of tables, whose weights are those of parts from `first_part`
  /// on.
  void add_rows(AnyTape& tape,
                std::int64_t first_part,
                Bags const& bags,
                ops::detail::GroupedTables grouped,
                std::source_location issued_at) const;

  std::vector<TableSpec> tables_;
  comm::detail::AnyCommunicator communicator_;
  ShardedTablesOptions options_;
  TablePlan plan_;
  TableLayout layout_;
  std::shared_ptr<DeviceState> device_;
  /// The group of the kernels that run ahead of their lookup. On the communicator's group, the
  /// collectives behind them would wait for them.
  std::shared_ptr<StreamGroup> ahead_;
  std::vector<Part> parts_;
  std::optional<Tables> divided_;     ///< the blocks that no other rank has
  std::optional<Tables> replicated_;  ///< the replicated tables
  std::optional<Tables> all_;         ///< the blocks of the rank, for gradients

  std::optional<DistinctRows> distinct_;  ///< if distinct rows are sent
  /// The state that lookups and backwards change.
  struct Waiting {
    std::vector<std::weak_ptr<LaterSend>> sends;  ///< of rows ahead, in the order of their calls
    /// For each lookup that a tape has, whether it has been played back.
    std::vector<std::weak_ptr<bool>> played_back;
  };
  std::shared_ptr<Waiting> waiting_ = std::make_shared<Waiting>();
  std::shared_ptr<std::int64_t> backwards_ = std::make_shared<std::int64_t>(0);  ///< of all bags
  std::shared_ptr<NotUpdated> not_updated_ = std::make_shared<NotUpdated>();

  ops::detail::ReportPolicy id_policy_;  ///< for ids that no table has, with the tables' names
  std::string of_rank_;                  ///< the name of the operation in such reports

  DeviceArrays arrays_;  ///< what the pointers point to
  ops::kernels::ShardSlot const* slots_;
  ops::kernels::ShardMessage const* messages_;
  ops::kernels::ShardRows const* rows_;  ///< of the blocks of this rank
  ops::kernels::ColumnSource const* sources_;
  ops::kernels::SplitSlot const* source_slots_;
  std::int32_t const* first_sources_;
  std::int32_t const* gradient_sources_;
  std::int64_t const* first_gradient_sources_;
  std::int64_t const* widths_;           ///< of the divided blocks of each rank
  std::int64_t const* gradient_widths_;  ///< of all blocks of each rank
  ops::kernels::ShardSlot const* divided_at_home_;
  ops::Pooling const* poolings_at_home_;
  std::int32_t const* divisor_tables_;
};

}  // namespace msstream::detail
