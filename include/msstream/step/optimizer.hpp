// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/host_state.hpp>
#include <msstream/comm/detail/any_communicator.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/ops/optimizer.hpp>
#include <msstream/ops/optimizer_rule.hpp>
#include <msstream/ops/precision.hpp>
#include <msstream/ops/schedule.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/loss_scale.hpp>
#include <msstream/step/parameters.hpp>
#include <msstream/tensor/tensor.hpp>

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace msstream {

struct OptimizerOptions {
  /// How a float32 is rounded to a number of 16 bits. nearest: to the nearest one, ties to even.
  /// stochastic: to one of its two neighbours at random, to the nearer one more often, so that the
  /// mean over the random bits is the float32.
  enum class Rounding : std::uint8_t { nearest, stochastic };

  /// The rule of tables, if it is not that of dense parameters, such as row-wise Adagrad beside
  /// AdamW. Its learning rate keeps its ratio to the rule's, under the schedule and after
  /// set_learning_rate().
  std::optional<ops::OptimizerRule> table_rule = {};
  /// Whether all tables whose gradients were computed on one stream group are updated by one
  /// operation of that group, named `update_rows`. If false, only tables of one lookup in
  /// ops::EmbeddingTables are, and each other table has its own operation, `<name>/update_rows`.
  /// Tables of a lookup in ops::EmbeddingTables whose gradients nobody needs before are always
  /// updated by an operation of their own, named `update_tables`. The results are the same.
  bool tables_together = false;
  /// Whether the first step() calls check(). For programs whose optimizers have all parameters and
  /// tables, from one Parameters or one optimizer, and whose first step looks up all tables.
  bool check_first_step = false;
  /// Whether all step() calls check(). In a capture the check runs once.
  bool check_every_step = false;
  /// Whether check() also lists every other tensor with a gradient that no optimizer has, such as a
  /// weight made beside the Parameters. Data must then be excluded by
  /// GradientTape::without_gradient(), in each step.
  bool check_owners = false;
  /// Patterns of the whole names of parameters and tables that some steps do not use, such as
  /// {"task_b/*"} if batches of tasks alternate: see Parameters::freeze(). Neither step() nor
  /// check() refuses one for having no gradient. A step in which it has none does not move it, by
  /// weight decay neither, and its moments stay as they are; but the step counts. Both throw
  /// std::logic_error for a pattern that matches nothing of the optimizer or of the Parameters from
  /// which it was filled.
  std::vector<std::string> may_lack_gradient = {};
  /// How the learning rate depends on the number of steps.
  Schedule schedule = {};
  /// The gradients of all parameters and tables of the optimizer are scaled down together so that
  /// their global norm is at most clip_norm; (0, infinity]. Elements are clipped by
  /// OptimizerRule::clip_value before. With parts of ShardedTables, the norm is that of the parts
  /// of all ranks together, and of all else on rank 0, so that all ranks scale equally.
  float clip_norm = std::numeric_limits<float>::infinity();
  /// Whether a step with a NaN or an infinity in the gradients, or whose global norm is infinite,
  /// is skipped: no parameter and no moment changes, and the step is not counted. Decided on the
  /// device, also in replays, before OptimizerRule::clip_value makes an infinity finite. With parts
  /// of ShardedTables, all ranks skip a step if one has a NaN or an infinity.
  bool skip_non_finite = false;
  /// The scale by which the loss is multiplied, with LossScale::scaled(), for gradients in float16.
  /// A step divides its gradients by it before anything else, skips a NaN or an infinity as
  /// skip_non_finite does, and changes the scale. Null: the scale is 1.
  std::optional<LossScale<detail::AnyRuntime>> loss_scale = {};
  /// The number of backward() calls per update, from 1. See Optimizer::step().
  std::int64_t micro_batches = 1;
  /// How the updated rows of tables of float16 and bfloat16 are rounded. With nearest, an update
  /// below half the distance to the next number changes nothing. With stochastic, such updates move
  /// a row with a probability in proportion to their size, and their mean is kept: see
  /// docs/precision.md. Moments are float32 and are not rounded, nor are tables of float32.
  ///
  /// The random bits depend on rounding_seed, the number of the step, the name of the table, the
  /// row and the column alone, and on the first column of a part of a table that is divided by
  /// columns, so that results have the same bits for any stream groups, captured
  /// or not, in a resumed run, and on CUDA and on the host if the gradients have.
  Rounding table_rounding = Rounding::nearest;
  std::uint64_t rounding_seed = 0;  ///< of stochastic rounding; not part of the saved state
  /// The precision in which the optimizer keeps a copy of each dense parameter, which its update
  /// writes as well, so that layers of that precision read the copy and cast nothing: see
  /// docs/precision.md. It has the bits of a cast. With fp32 there are no copies.
  Precision copies = Precision::fp32;
};

/// Updates parameters by the gradients of a tape: all dense parameters in one launch, and tables
/// row by row on the groups on which their gradients were computed. Not synchronised. Does not
/// block the host.
///
/// No element is updated twice in a step: a parameter or table that shares elements with another
/// one is rejected, and so is a second use of a name, because checkpoints identify parameters by
/// name. Two optimizers cannot update an element between two calls of backward() either, because
/// gradients of several backward() calls add up until the tape's clear().
template <Runtime R = DefaultRuntime>
class Optimizer;

/// The implementation of Optimizer<R>, compiled once for all runtimes.
template <>
class Optimizer<detail::AnyRuntime> {
 public:
  Optimizer(detail::AnyDevice const& device,
            ops::OptimizerRule const& rule,
            OptimizerOptions const& options,
            std::source_location issued_at);
  Optimizer(Optimizer const&) = delete;
  Optimizer& operator=(Optimizer const&) = delete;
  ~Optimizer();

  /// The numbers of the last step, read from the device.
  struct Status {
    std::int64_t steps;    ///< the number of updates
    float learning_rate;   ///< that of the last update, or the one set before the first
    double gradient_norm;  ///< global norm before clipping; 0 without clip_norm and skip_non_finite
    std::int64_t skipped;  ///< the number of skipped steps, those of the resumed run included
  };

  void add(std::string name,
           detail::Floats const& weight,
           ops::ParameterGroup const& group,
           std::source_location issued_at);
  void add_table(std::string name,
                 detail::AnyTensor const& table,
                 ops::ParameterGroup const& group,
                 std::source_location issued_at);
  void add(Parameters<detail::AnyRuntime> const& parameters,
           std::optional<std::string> const& names,
           ops::ParameterGroup const& group,
           std::source_location issued_at);
  bool step(GradientTape<detail::AnyRuntime> const& tape, std::source_location issued_at);
  bool apply_micro_batches(GradientTape<detail::AnyRuntime> const& tape,
                           std::source_location issued_at);
  /// Forgets the micro-batches since the last update, for a batch that is thrown away. Drop their
  /// gradients by the tape's clear().
  void discard_micro_batches() noexcept;
  /// Sets the learning rate of the steps and replays that are issued from now on; the schedule
  /// multiplies it. Ordered like an operation. Does not block the host. The rate is then part of
  /// the state: a run that is resumed continues with it. A rate that was never set is the rule's of
  /// the program that resumes. Throws std::invalid_argument for a rate that is negative, infinite
  /// or NaN.
  void set_learning_rate(float learning_rate,
                         std::source_location issued_at = std::source_location::current());
  /// Waits for all steps and replays that were issued, and returns what the last one was like.
  [[nodiscard]] Status status(
      std::source_location issued_at = std::source_location::current()) const;
  void check(GradientTape<detail::AnyRuntime> const& tape,
             std::vector<Optimizer const*> const& others) const;
  /// Returns the rule of dense parameters, and of tables without a table_rule.
  [[nodiscard]] ops::OptimizerRule const& rule() const noexcept;
  /// Adds a part of a table, like add_table(), of which other ranks have other parts. It begins
  /// with the given row and column of the whole table. For use by the library only, after
  /// add_ranks().
  void add_part(std::string name,
                detail::AnyTensor const& part,
                std::int64_t first_row,
                std::int64_t first_column,
                ops::ParameterGroup const& group,
                std::source_location issued_at);
  /// Clips by the gradients of all ranks of the communicator, and skips a step if those of any rank
  /// are not finite. Blocks the host until all ranks have called it. Throws std::invalid_argument,
  /// on all ranks, if their options differ. For use by the library only.
  void add_ranks(comm::detail::AnyCommunicator const& communicator);
  /// Notes a table that is on other ranks, which OptimizerOptions::may_lack_gradient may name. For
  /// use by the library only.
  void note_elsewhere(std::string name);
  /// Increments the number at each update of the parameters, not at micro-batches before it. For
  /// use by the library only.
  void count_updates(std::shared_ptr<std::int64_t> number);
  /// Returns what a checkpoint has besides tensors. For use by the library only.
  [[nodiscard]] std::shared_ptr<detail::HostState> saved_rule() const;
  [[nodiscard]] detail::SourceCheck check_of_list() const;
  void visit_state(
      std::function<void(std::string const&, detail::AnyTensor const&)> const& visit) const;

 protected:
  /// The name of the number of skipped steps in a checkpoint.
  static constexpr char const* kSkipped = "optimizer/skipped";

 private:
  class State;
  std::unique_ptr<State> const state_;
};

template <Runtime R>
class Optimizer : public Optimizer<detail::AnyRuntime> {
  using Body = Optimizer<detail::AnyRuntime>;

 public:
  /// Makes an optimizer without parameters and tables. Throws std::invalid_argument for a rule that
  /// ops::require_rule() rejects, for options out of range, and for a table_rule beside a learning
  /// rate of 0, or with other betas if both rules are kinds of Adam. Uploads a tabulated schedule,
  /// so it must not be called inside a capture.
  Optimizer(Device<R> device,
            ops::OptimizerRule const& rule,
            OptimizerOptions const& options = {},
            std::source_location issued_at = std::source_location::current())
      : Body(device.engine(), rule, options, issued_at) {}

  /// Adds a parameter whose elements are all updated in each step. Gradients of lookups in the
  /// parameter count like those of other operations. Throws std::invalid_argument for a name that
  /// is in use, for a tensor that shares elements with an earlier one, for a frozen tensor, and for
  /// one of another device.
  void add(std::string name,
           Tensor<float, R> const& weight,
           std::source_location issued_at = std::source_location::current()) {
    Body::add(std::move(name), weight, {}, issued_at);
  }
  /// Like add(), for a parameter whose numbers differ from those of the rule: a factor of the
  /// learning rate, weight decay, clipping by value. Groups cost no launch. Throws
  /// std::invalid_argument for numbers that ops::require_group() rejects.
  void add(std::string name,
           Tensor<float, R> const& weight,
           ops::ParameterGroup const& group,
           std::source_location issued_at = std::source_location::current()) {
    Body::add(std::move(name), weight, group, issued_at);
  }
  /// Adds a table [rows, width] of floats of any precision with row-sparse gradients. Each step
  /// updates the rows that were looked up, in the table or in views of its rows. Throws
  /// std::invalid_argument for a name that is in use, for a tensor that shares elements with an
  /// earlier one, for a frozen tensor, and for other shapes.
  template <Element T>
    requires std::constructible_from<ops::AnyTable<R>, Tensor<T, R>>
  void add_table(std::string name,
                 Tensor<T, R> const& table,
                 std::source_location issued_at = std::source_location::current()) {
    Body::add_table(std::move(name), table.any(), {}, issued_at);
  }
  template <Element T>
    requires std::constructible_from<ops::AnyTable<R>, Tensor<T, R>>
  void add_table(std::string name,
                 Tensor<T, R> const& table,
                 ops::ParameterGroup const& group,
                 std::source_location issued_at = std::source_location::current()) {
    Body::add_table(std::move(name), table.any(), group, issued_at);
  }

  /// Adds every dense parameter and table of the store that is not frozen and that the optimizer
  /// does not have yet, under its name. Keeps the store: parameters that it gets later are not
  /// added by themselves, call again, but check() names them. Throws what add() and add_table()
  /// throw for one of them, before any is added, and std::invalid_argument if the store has no
  /// dense parameter and no table, as before the model is made.
  void add(Parameters<R> const& parameters,
           std::source_location issued_at = std::source_location::current()) {
    Body::add(parameters, std::nullopt, {}, issued_at);
  }
  /// Adds, with the numbers of a group, only those whose whole name the pattern matches, such as
  /// "*/bias": see Parameters::freeze(). Call it before the other form. Throws
  /// std::invalid_argument, before any is added, if the pattern matches no such parameter, and if
  /// the optimizer already has one that it matches with other numbers.
  void add(Parameters<R> const& parameters,
           std::string const& names,
           ops::ParameterGroup const& group,
           std::source_location issued_at = std::source_location::current()) {
    Body::add(parameters, names, group, issued_at);
  }

  /// Applies one step with the tape's gradients. A table without gradients does not change.
  ///
  /// With k micro-batches, call step() after each backward(), and the tape's clear() only when
  /// step() has returned true. The calls after the first k - 1 backward() calls update nothing and
  /// return false; the k-th updates by the mean of the k gradients, and returns true. Capture all k
  /// together: the calls are counted on the host, and replays are not. A capture of fewer throws
  /// std::logic_error.
  ///
  /// Leaves out what is frozen: see Parameters::freeze().
  ///
  /// Throws std::logic_error, without any update, if dense parameters have no gradient that may not
  /// lack one (the message names all of them and says for each whether it is excluded or not used
  /// by the loss), if one was frozen when its Parameters were added and is not now,
  /// if operations other than lookups contributed to a table's gradient, if another optimizer has
  /// updated the same elements since the last backward(), and if the tape does not have the
  /// gradients of all micro-batches so far; these are then forgotten, and the tape's clear() begins
  /// a new update. After any other exception some parameters and their state may have been updated
  /// and others not: restart from a checkpoint.
  bool step(GradientTape<R> const& tape,
            std::source_location issued_at = std::source_location::current()) {
    return Body::step(tape, issued_at);
  }
  /// Updates by the mean of the gradients of the micro-batches since the last update, fewer than
  /// k, for the end of an epoch, and returns true: call the tape's clear() then. Returns false, and
  /// does nothing, if there are none. Throws what step() throws.
  bool apply_micro_batches(GradientTape<R> const& tape,
                           std::source_location issued_at = std::source_location::current()) {
    return Body::apply_micro_batches(tape, issued_at);
  }

  /// Checks, after backward(), that the step would update everything that the model trains. Throws
  /// std::logic_error with a list of parameters and tables without a gradient, of views of them
  /// whose lookups did not affect the loss, of parameters that a store given to add() has and no
  /// optimizer, whatever patterns add() got, and of tables that were looked up but belong, wholly
  /// or in part, to no optimizer. Lists no parameter for having no gradient that may lack one.
  /// Knows this optimizer, `others`, and all optimizers that have parameters from the same store.
  /// With OptimizerOptions::check_owners also lists other tensors that have a gradient and
  /// belong, wholly or in part, to no optimizer. Does not block the host.
  template <class... Others>
    requires(std::same_as<Others, Optimizer>&&...)
  void check(GradientTape<R> const& tape, Others const&... others) const {
    Body::check(tape, {&others...});
  }

  /// Passes to `visit` everything that a saved run needs besides the parameters. `visit(name,
  /// tensor)` receives float32 tensors, and the counters of steps as uint8; pass a reader or a
  /// writer of tensors, and call once. A checkpoint::Tensors also gets the name of the kind: see
  /// docs/checkpoints.md.
  template <class Visit>
  void visit_state(Visit&& visit) const {
    Body::visit_state([&](std::string const& name, detail::AnyTensor const& state) {
      if (state.dtype() == DType::uint8) {
        Tensor<std::uint8_t, R> const counter(detail::OfKnownType(), state);
        if constexpr (detail::TakesHostState<Visit>) {
          if (name == kSkipped) {
            visit(detail::OptionalInFile(), name, counter);
            return;
          }
        }
        visit(name, counter);
      } else {
        Tensor<float, R> const moments(detail::OfKnownType(), state);
        visit(name, moments);
      }
    });
    if constexpr (detail::TakesHostState<Visit>) {
      visit(std::string(), Body::saved_rule());
      visit(Body::check_of_list());
    }
  }
};

}  // namespace msstream
