// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/comm/communicator.hpp>
#include <msstream/comm/reduction.hpp>
#include <msstream/ops/embedding_tables.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/no_tape.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/step/table_plan.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace msstream {

struct ShardedTablesOptions {
  /// The most samples that a rank has in a lookup; equal on all ranks.
  std::int64_t most_samples;
  std::uint64_t seed = 0;  ///< of the first values: see ParametersOptions
  /// mean, as DataParallel has it: the gradient of a row is the sum over the samples of all ranks,
  /// divided by the number of parts of a batch. Or sum.
  comm::Reduction reduction = comm::Reduction::mean;
  /// The parts of a batch: DataParallel::parts() or HalfBatches::parts(), if the step has several
  /// losses a rank. 0 stands for one a rank.
  int parts = 0;
  /// How ids out of range and bags with invalid offsets are reported: drop, or trap. The message of
  /// an id names its table, and the rank that has the sample.
  ops::OutOfRange out_of_range = ops::OutOfRange::drop;
  /// The rows that are exchanged for a lookup: the pooled rows of each sample, or each distinct row
  /// once, and the rank then pools at home. The latter sends less where the samples of a rank have
  /// fewer distinct rows of a table than there are samples, times the ranks that have the table for
  /// row_wise.
  SentRows sent = SentRows::pooled;
};

namespace detail {

class ShardedTablesState;
struct ExchangedIds;

/// The implementation of ShardedIds<R>::assign(), compiled once for all runtimes.
void assign_ids(ExchangedIds const& to, ExchangedIds const& from, std::source_location issued_at);

/// The implementation of ShardedTables<R>, compiled once for all runtimes.
class AnyShardedTables {
 public:
  AnyShardedTables(std::vector<TableSpec> tables,
                   comm::detail::AnyCommunicator const& communicator,
                   ShardedTablesOptions const& options,
                   TablePlan plan,
                   std::source_location issued_at);

  [[nodiscard]] std::vector<TableSpec> const& tables() const noexcept;
  [[nodiscard]] TablePlan const& plan() const noexcept;
  [[nodiscard]] std::int64_t width() const noexcept;
  /// `is_ahead`: for a lookup that other work comes before.
  [[nodiscard]] std::shared_ptr<ExchangedIds const> exchange(ops::TableBags<AnyRuntime> const& bags,
                                                             bool is_ahead,
                                                             std::source_location issued_at) const;
  [[nodiscard]] std::shared_ptr<ExchangedIds const> prefetch_rows(
      std::shared_ptr<ExchangedIds const> const& ids,
      std::shared_ptr<ExchangedIds const> const& now,
      std::source_location issued_at) const;
  [[nodiscard]] Floats lookup(AnyTape* tape,
                              std::shared_ptr<ExchangedIds const> const& ids,
                              std::source_location issued_at) const;
  void add_to(Optimizer<AnyRuntime>& optimizer,
              ops::ParameterGroup const& group,
              std::source_location issued_at) const;
  void for_each_part(std::function<void(std::string const&, AnyTensor const&)> const& visit) const;
  [[nodiscard]] ShardedTablesState const& state() const noexcept { return *state_; }

 private:
  std::shared_ptr<ShardedTablesState> state_;
};

}  // namespace detail

/// The bags of one lookup, whose ids are where the tables are: ShardedTables::exchange() returns
/// it. Copies share their memory.
template <Runtime R = DefaultRuntime>
class ShardedIds {
 public:
  /// For use by the library only.
  explicit ShardedIds(std::shared_ptr<detail::ExchangedIds const> body) : body_(std::move(body)) {}
  [[nodiscard]] std::shared_ptr<detail::ExchangedIds const> const& body() const noexcept {
    return body_;
  }

  /// Copies the ids of other bags, of the same tables and as many samples of this rank, and their
  /// prefetched rows, into the memory of these: at the end of a captured step, for the next replay.
  /// Asynchronous; capture-safe. Throws std::invalid_argument for other tables or another number of
  /// samples, and if one has weights, prefetched or stale rows and the other has not.
  void assign(ShardedIds const& from,
              std::source_location issued_at = std::source_location::current()) const {
    detail::assign_ids(*body_, *from.body_, issued_at);
  }

 private:
  std::shared_ptr<detail::ExchangedIds const> body_;
};

/// Embedding tables in parts on all ranks of a communicator. Each rank looks up the bags of its own
/// samples in all tables: ids go to the ranks that have the rows, pooled rows come back, and in the
/// backward their gradients go to the rows, which the rank that has them updates.
///
///     ShardedTables tables(specs, communicator, {.most_samples = 512});
///     tables.add_to(optimizer);
///     …
///     auto const pooled = tables.lookup(tape, ops::joined_bags({clicks, views}));
///     tape.backward(loss(pooled));
///     optimizer.step(tape);
///
/// A row begins with the values that it has in a table of Parameters of the same name, seed, shape
/// and initializer, whatever the plan and the number of ranks. Results are those of
/// ops::embedding_lookup() in ops::EmbeddingTables; for row_wise tables the sums of the ranks are
/// added in the order of the ranks, and then divided by the number of ids of the whole bag for
/// mean, and by its root for sqrtn. On the host, the gradient of a row has the bits that a lookup
/// of the samples of all ranks, in the order of the ranks, gives in one table; on CUDA it may be
/// rounded otherwise. A column_wise part is a table of its own for rules with one number a row, as
/// ops::OptimizerKind::rowwise_adagrad.
///
/// With SentRows::distinct, results for row_wise tables, too, are those of one rank. Gradients of a
/// row are summed over the samples of each rank, and the sums added in the order of the ranks. A
/// table has room for TableSpec::most_distinct rows of a rank's samples; rows beyond are left out,
/// and the next wait of the host throws std::out_of_range, with the table.
///
/// Lookups and backwards are collectives: all ranks call them in the same order, also a rank
/// without samples, and the loss of each rank must depend on the result. All samples of a rank
/// together have at most TableSpec::hotness ids a sample in the tables that are on one rank, or in
/// all tables with SentRows::distinct, default ids among them; ids beyond are left out, and the
/// next wait of the host throws std::out_of_range. Weights of ids get no gradient; with
/// SentRows::distinct, weights and default ids are refused. Capture-safe; deterministic. Copies
/// share the tables. Use it on one thread.
template <Runtime R = DefaultRuntime>
class ShardedTables {
 public:
  /// Allocates and fills the parts of this rank. Blocks the host until all ranks have called it,
  /// and not within a capture. Without a plan, table number t is table_wise on rank t modulo the
  /// number of ranks. Throws std::invalid_argument for what require_tables() and require_plan()
  /// refuse, for a plan for another number of ranks, for most_samples below 1, for a reduction
  /// other than mean and sum, for OutOfRange::count, and if tables, plans or options differ between
  /// ranks: the message has the first difference. If it throws on one rank, it does on all, and the
  /// communicator stays usable.
  ShardedTables(std::vector<TableSpec> tables,
                comm::Communicator<R> const& communicator,
                ShardedTablesOptions const& options,
                std::optional<TablePlan> plan = {},
                std::source_location issued_at = std::source_location::current())
      : body_(std::move(tables),
              communicator.any(),
              options,
              std::move(plan).value_or(TablePlan{.ranks = 0}),
              issued_at) {}

  /// Returns the specs of all tables, also of those without a part on this rank.
  [[nodiscard]] std::vector<TableSpec> const& tables() const noexcept { return body_.tables(); }
  /// Returns the placement of each table, which is equal on all ranks.
  [[nodiscard]] TablePlan const& plan() const noexcept { return body_.plan(); }
  /// Returns the number of columns of a lookup: the sum of the widths of all tables.
  [[nodiscard]] std::int64_t width() const noexcept { return body_.width(); }

  /// Sends the ids of this rank's samples to the ranks that have their rows. `bags` has those of
  /// all tables, in the order of the specs, as for ops::EmbeddingTables. The ids of the next batch
  /// can be exchanged while other work runs, because ids depend on no weights of tables: all
  /// kernels of exchange() and prefetch…() are issued to a group of these tables with low priority,
  /// and the collectives to the communicator's. To look up at once, call lookup() with the bags.
  /// Weights of ids, which all ranks have or none, are sent too, by one more collective.
  /// Asynchronous; capture-safe. Throws std::invalid_argument for more samples than most_samples,
  /// for shapes other than those of TableBags, and for weights of ids beside a table of
  /// Pooling::max.
  [[nodiscard]] ShardedIds<R> exchange(
      ops::TableBags<R> const& bags,
      std::source_location issued_at = std::source_location::current()) const {
    return ShardedIds<R>(body_.exchange(bags, true, issued_at));
  }

  /// Looks up and sends, before a lookup of `next`, those of its rows that the bags `now` of no
  /// rank name; of pooled rows, those of bags all of whose rows in a part of a table are such.
  /// Returns `next` with these rows; its lookup gets the others, so that it has the bits of a
  /// lookup without prefetched rows, provided that meanwhile only gradients of `now` change the
  /// tables. Rows are looked up as soon as their ids have come. Pooled rows are sent behind the
  /// gradients of `now`, which must not wait for them, or by the next lookup() or assign();
  /// distinct rows are sent at once. A collective. Asynchronous; capture-safe. Before the first
  /// step, `next` and `now` may be the same bags, which prefetches no row. A later lookup() throws
  /// std::logic_error if lookups of other bags than `now` have been played back since. Throws
  /// std::logic_error if other bags have been played back whose update is still to come, as with
  /// micro-batches: on a tape that has their gradients, since no update and no clear(). Throws
  /// std::invalid_argument for ids of other tables, and if the pooled rows of most_samples for all
  /// ranks are 2^31 floats or more.
  [[nodiscard]] ShardedIds<R> prefetch_rows(
      ShardedIds<R> const& next,
      ShardedIds<R> const& now,
      std::source_location issued_at = std::source_location::current()) const {
    return ShardedIds<R>(body_.prefetch_rows(next.body(), now.body(), issued_at));
  }
  /// Looks up and sends all rows of `next`, as they are before an update that is issued later.
  /// Returns `next` with these rows, so that its lookup gets none from other ranks: by choice one
  /// step stale if called before the update of a step. Rows of replicated tables are looked up at
  /// home, and not stale. Otherwise like prefetch_rows(), for any number of floats.
  [[nodiscard]] ShardedIds<R> prefetch_stale_rows(
      ShardedIds<R> const& next,
      std::source_location issued_at = std::source_location::current()) const {
    return ShardedIds<R>(body_.prefetch_rows(next.body(), nullptr, issued_at));
  }

  /// Returns the pooled rows of this rank's samples, [samples, width()], with the columns of the
  /// tables side by side. The tape records the backward, which gives this rank's parts row-sparse
  /// gradients. `tape` is a GradientTape, or no_tape, in which case no gradients are exchanged.
  /// Asynchronous; capture-safe.
  template <TapeOf<R> Tape>
  [[nodiscard]] Tensor<float, R> lookup(
      Tape& tape,
      ShardedIds<R> const& ids,
      std::source_location issued_at = std::source_location::current()) const {
    return detail::typed<R>(body_.lookup(any_tape(tape), ids.body(), issued_at));
  }
  template <TapeOf<R> Tape>
  [[nodiscard]] Tensor<float, R> lookup(
      Tape& tape,
      ops::TableBags<R> const& bags,
      std::source_location issued_at = std::source_location::current()) const {
    return lookup(tape, ShardedIds<R>(body_.exchange(bags, false, issued_at)), issued_at);
  }

  /// Adds the parts of this rank to the optimizer, under the names of their tables. With clip_norm
  /// or skip_non_finite, Optimizer::step() is a collective of the communicator, or of that of other
  /// tables that were added before. All ranks call add_to(), which blocks the host until they have.
  /// Throws what Optimizer::add_table() throws, and std::invalid_argument, on all ranks, if
  /// clip_norm, skip_non_finite or micro_batches differ between ranks, and for an optimizer with
  /// tables of a communicator of other ranks.
  void add_to(Optimizer<R>& optimizer,
              ops::ParameterGroup const& group = {},
              std::source_location issued_at = std::source_location::current()) const {
    body_.add_to(optimizer, group, issued_at);
  }

  /// Returns the implementation. For use by the library only.
  [[nodiscard]] detail::AnyShardedTables const& any() const noexcept { return body_; }

  /// Calls visit(name, tensor) for the part of each table that this rank has, [rows, columns] of
  /// float32, float16 or bfloat16.
  template <class Visit>
  void for_each_part(Visit&& visit) const {
    body_.for_each_part([&](std::string const& name, detail::AnyTensor const& part) {
      detail::visit_weights<R>(visit, name, part);
    });
  }

 private:
  template <class Tape>
  [[nodiscard]] static detail::AnyTape* any_tape(Tape& tape) {
    if constexpr (std::derived_from<Tape, GradientTape<R>>) {
      return tape.is_recording() ? &tape : nullptr;
    } else {
      return nullptr;
    }
  }

  detail::AnyShardedTables body_;
};

}  // namespace msstream
