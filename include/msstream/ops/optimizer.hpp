// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/ops/embedding_tables.hpp>
#include <msstream/ops/optimizer_rule.hpp>
#include <msstream/ops/schedule.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <source_location>
#include <utility>
#include <variant>
#include <vector>

namespace msstream::ops {

/// Returns the number of state tensors that an optimizer of this kind has for each parameter.
[[nodiscard]] constexpr int states_of(OptimizerKind kind) noexcept {
  switch (kind) {
    case OptimizerKind::sgd:
      return 0;
    case OptimizerKind::momentum:
    case OptimizerKind::adagrad:
    case OptimizerKind::rowwise_adagrad:
    case OptimizerKind::rmsprop:
    case OptimizerKind::lion:
      return 1;
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
    case OptimizerKind::lamb:
    case OptimizerKind::ftrl:
    case OptimizerKind::partial_rowwise_adam:
      return 2;
  }
  return 0;
}

/// Returns the name of an optimizer kind, such as "adam".
[[nodiscard]] char const* name_of(OptimizerKind kind) noexcept;

/// Returns the shape of a parameter's state tensor 0 or 1: the parameter's shape, or [rows] if the
/// rule has one number of that state per row of a table.
[[nodiscard]] Shape state_shape(OptimizerKind kind, Shape const& parameter, int state = 0);

/// Checks an optimizer's rule. Throws std::invalid_argument for an unknown kind, for a number that
/// is not in the range of its comment, and for an l1, a beta1, a beta2 or an ftrl_beta other than
/// the default with a kind whose formula has none. The message names the member.
void require_rule(char const* operation, OptimizerRule const& rule);
/// Checks the numbers of a group in the same way.
void require_group(char const* operation, ParameterGroup const& group);

/// The state of an optimizer for one parameter: up to two float32 tensors of state_shape().
template <Runtime R = DefaultRuntime>
struct OptimizerState {
  std::optional<Tensor<float, R>> first = {};  ///< such as the momentum; null if states_of() is 0
  /// The second state, such as Adam's second moment; null if states_of() is 0 or 1.
  std::optional<Tensor<float, R>> second = {};

  /// Converts to a state without a runtime type. For use by the library only.
  template <std::same_as<OptimizerState<detail::AnyRuntime>> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    return {first, second};
  }
};

namespace detail {

template <Runtime R>
[[nodiscard]] OptimizerState<R> typed(OptimizerState<AnyRuntime> state) {
  return {typed<R>(std::move(state.first)), typed<R>(std::move(state.second))};
}

// The implementation of make_state(), compiled once for all runtimes.

[[nodiscard]] OptimizerState<AnyRuntime> make_state(std::shared_ptr<DeviceState> const& device,
                                                    OptimizerKind kind,
                                                    Shape const& shape,
                                                    std::source_location issued_at);

}  // namespace detail

/// Returns the optimizer state of a parameter of the given shape, filled with zeros. For a dense
/// parameter pass dense_kind() of the rule's kind.
template <Runtime R>
[[nodiscard]] OptimizerState<R> make_state(
    Device<R> const& device,
    OptimizerKind kind,
    Shape const& shape,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::make_state(device.state(), kind, shape, issued_at));
}

namespace detail {

/// A gradient that is a part of a global norm.
struct NormInput;

/// How the gradients of a step are scaled together.
struct GradientScaling {
  float factor = 1.0F;  ///< of all gradients, before they are clipped
  float clip_norm = std::numeric_limits<float>::infinity();  ///< of the global norm
  bool skip_non_finite = false;  ///< whether a step whose norm is NaN or infinite is skipped
  /// [2]: the scale of the loss, which divides gradients, and the steps since it last changed.
  std::optional<Floats> loss_scale = {};
  float loss_scale_growth = 2.0F;
  float loss_scale_backoff = 0.5F;
  std::int64_t loss_scale_interval = 2000;
};

}  // namespace detail

/// The step counter of an optimizer, with the bias corrections of Adam and a factor of the learning
/// rate, in device memory, so that a replay of a captured step advances it too.
///
/// An update takes the rule's learning rate times the factor. The factor of a step is that of the
/// schedule, times what set_rate() has set, 1 at first.
template <Runtime R = DefaultRuntime>
class StepCounter;

/// The implementation of StepCounter, compiled once for all runtimes.
template <>
class StepCounter<detail::AnyRuntime> {
 public:
  /// `rate` is the factor of the learning rate until set_rate() sets another.
  StepCounter(std::shared_ptr<detail::DeviceState> const& device,
              Schedule schedule,
              float rate,
              std::source_location issued_at);
  /// Counts one step of the optimizer. Call advance() before the updates of that step.
  void advance(OptimizerRule const& rule,
               std::source_location issued_at = std::source_location::current());
  /// Sets the factor of the learning rate from the next advance() on; the schedule multiplies it.
  /// Ordered like an operation. Does not block the host. Throws std::invalid_argument for a factor
  /// that is negative, infinite or NaN.
  void set_rate(float rate, std::source_location issued_at = std::source_location::current());
  /// Returns the schedule whose factor multiplies the learning rate.
  [[nodiscard]] Schedule const& schedule() const noexcept { return schedule_; }
  [[nodiscard]] detail::TensorOf<std::uint8_t> const& tensor() const noexcept { return state_; }

  /// Like advance(), for the Optimizer: multiplies gradients by the factor, and then clips the
  /// global norm of the given gradients, if clip_norm is finite. A step that is skipped is not
  /// counted, and its updates change nothing.
  void advance_clipped(OptimizerRule const& rule,
                       detail::GradientScaling const& scaling,
                       std::vector<detail::NormInput> const& gradients,
                       std::source_location issued_at);
  /// Returns the squares of this rank's part of a global norm, as bytes, for advance_on_ranks().
  /// All ranks have the first `shared` gradients, and this one alone the others.
  [[nodiscard]] detail::TensorOf<std::uint8_t> squares_of(
      detail::GradientScaling const& scaling,
      std::vector<detail::NormInput> const& gradients,
      std::size_t shared,
      std::source_location issued_at) const;
  /// Like advance_clipped(), with the squares of all ranks, in the order of the ranks.
  void advance_on_ranks(OptimizerRule const& rule,
                        detail::GradientScaling const& scaling,
                        detail::TensorOf<std::uint8_t> const& squares,
                        std::source_location issued_at);

 private:
  Schedule schedule_;
  float rate_;
  std::optional<detail::TensorOf<float>> table_;  ///< the factors of a tabulated schedule
  detail::TensorOf<std::uint8_t> state_;
};

template <Runtime R>
class StepCounter : public StepCounter<detail::AnyRuntime> {
  using Body = StepCounter<detail::AnyRuntime>;

 public:
  explicit StepCounter(Device<R> const& device,
                       std::source_location issued_at = std::source_location::current())
      : Body(device.state(), {}, 1.0F, issued_at) {}
  /// Makes a counter whose learning rates follow the schedule. Uploads a tabulated schedule, so it
  /// must not be called inside a capture.
  StepCounter(Device<R> const& device,
              Schedule schedule,
              std::source_location issued_at = std::source_location::current())
      : Body(device.state(), std::move(schedule), 1.0F, issued_at) {}
  /// Returns the state in device memory, as bytes, for checkpoints. Copies share it.
  [[nodiscard]] Tensor<std::uint8_t, R> tensor() const { return detail::typed<R>(Body::tensor()); }
};

template <Runtime R = DefaultRuntime>
struct DenseParameter {
  Tensor<float, R> weight;    ///< of any shape; updated in place
  Tensor<float, R> gradient;  ///< in the shape of the weight
  OptimizerState<R> state;    ///< by make_state() of dense_kind(); updated in place
  ParameterGroup group = {};  ///< numbers that differ from the rule's

  /// Converts to a parameter without a runtime type. For use by the library only.
  template <std::same_as<DenseParameter<detail::AnyRuntime>> Any>
  // NOLINTNEXTLINE(google-explicit-constructor): loses only the type
  operator Any() const {
    return {weight, gradient, state, group};
  }
};

namespace detail {

// The implementation of update_dense(), compiled once for all runtimes.

void update_dense(OptimizerRule const& rule,
                  StepCounter<AnyRuntime> const& step,
                  std::vector<DenseParameter<AnyRuntime>> const& parameters,
                  std::source_location issued_at);

}  // namespace detail

/// Applies one optimizer step to any number of dense parameters, up to 48 per launch. LAMB, whose
/// trust ratio is that of a whole parameter, needs three launches.
/// Deterministic; asynchronous.
template <Runtime R>
void update_dense(OptimizerRule const& rule,
                  StepCounter<R> const& step,
                  std::vector<DenseParameter<R>> const& parameters,
                  std::source_location issued_at = std::source_location::current()) {
  detail::update_dense(rule, step, {parameters.begin(), parameters.end()}, issued_at);
}

namespace detail {

// The implementation of update_rows() for one table, compiled once for all runtimes.

void update_rows(OptimizerRule const& rule,
                 StepCounter<AnyRuntime> const& step,
                 AnyTensor const& table,
                 RowGradients<AnyRuntime> const& gradients,
                 OptimizerState<AnyRuntime> const& state,
                 std::source_location issued_at);

}  // namespace detail

/// Applies one optimizer step to the rows of a table [rows, width] that have a gradient. Other rows
/// and their state do not change. Deterministic; asynchronous.
template <Element T, Runtime R>
void update_rows(OptimizerRule const& rule,
                 StepCounter<R> const& step,
                 Tensor<T, R> const& table,
                 RowGradients<R> const& gradients,
                 OptimizerState<R> const& state,
                 std::source_location issued_at = std::source_location::current()) {
  detail::update_rows(rule, step, table.any(), gradients, state, issued_at);
}

/// The weights of an embedding table: float32, float16 or bfloat16.
template <Runtime R = DefaultRuntime>
using AnyTable = std::variant<Tensor<float, R>, Tensor<float16, R>, Tensor<bfloat16, R>>;

template <Runtime R = DefaultRuntime>
struct TableParameter;

/// An embedding table with its gradients and its optimizer state, on a device of any runtime. For
/// use by the library only.
template <>
struct TableParameter<detail::AnyRuntime> {
  detail::AnyTensor table;  ///< [rows, width], of any type of weights
  RowGradients<detail::AnyRuntime> gradients;
  OptimizerState<detail::AnyRuntime> state;
  ParameterGroup group = {};
};

template <Runtime R>
struct TableParameter {
  AnyTable<R> table;          ///< [rows, width]
  RowGradients<R> gradients;  ///< of the rows that were looked up; the others stay
  OptimizerState<R> state;    ///< by make_state() for the table; updated in place
  ParameterGroup group = {};  ///< numbers that differ from the rule's

  /// Converts to a table without a runtime type. For use by the library only.
  operator TableParameter<detail::AnyRuntime>() const {  // NOLINT(google-explicit-constructor)
    return {std::visit([](auto const& weights) { return weights.any(); }, table),
            gradients,
            state,
            group};
  }
};

namespace detail {

// The implementation of update_rows() for many tables, compiled once for all runtimes.

void update_rows(OptimizerRule const& rule,
                 StepCounter<AnyRuntime> const& step,
                 std::vector<TableParameter<AnyRuntime>> const& tables,
                 std::source_location issued_at);

}  // namespace detail

/// Applies one optimizer step to the rows with a gradient of any number of distinct tables, in one
/// operation: one launch for up to 40 tables of one type. Gives the same bits as an update per
/// table. Deterministic; asynchronous.
template <Runtime R>
void update_rows(OptimizerRule const& rule,
                 StepCounter<R> const& step,
                 std::vector<TableParameter<R>> const& tables,
                 std::source_location issued_at = std::source_location::current()) {
  detail::update_rows(rule, step, {tables.begin(), tables.end()}, issued_at);
}

namespace detail {

// The implementation of update_rows() for EmbeddingTables, compiled once for all runtimes.

void update_rows(OptimizerRule const& rule,
                 StepCounter<AnyRuntime> const& step,
                 EmbeddingTables<AnyRuntime> const& tables,
                 std::vector<OptimizerState<AnyRuntime>> const& states,
                 TablesRowGradients<AnyRuntime> const& gradients,
                 std::source_location issued_at);

}  // namespace detail

/// Applies one optimizer step to the rows with a gradient of all tables, in one operation: one
/// launch for up to 40 tables of one type, without a copy of the gradients. `states` has the state
/// of each table. Gives the same bits as an update of each table by its part of the gradients.
/// Deterministic; asynchronous; capture-safe. Throws std::invalid_argument for states and gradients
/// that do not fit, and for tables that share elements with each other, because these would be
/// updated twice.
template <Runtime R>
void update_rows(OptimizerRule const& rule,
                 StepCounter<R> const& step,
                 EmbeddingTables<R> const& tables,
                 std::vector<OptimizerState<R>> const& states,
                 TablesRowGradients<R> const& gradients,
                 std::source_location issued_at = std::source_location::current()) {
  detail::update_rows(rule, step, tables, {states.begin(), states.end()}, gradients, issued_at);
}

namespace detail {

// The implementation of update_embedding(), compiled once for all runtimes.

void update_embedding(OptimizerRule const& rule,
                      StepCounter<AnyRuntime> const& step,
                      AnyTensor const& table,
                      OptimizerState<AnyRuntime> const& state,
                      AnyBags const& bags,
                      UniqueRows<AnyRuntime> const& unique,
                      Pooling pooling,
                      AnyTensor const& output_gradient,
                      std::optional<TensorOf<std::int32_t>> const& argmax,
                      std::source_location issued_at);

}  // namespace detail

/// Applies one optimizer step to the rows of `table` [rows, width] that a lookup has read, from the
/// gradient of the lookup's output. Gives the same bits as embedding_gradient() followed by
/// update_rows(), without writing the rows' gradients to memory. `unique` is deduplicate() of
/// `bags`; each row is updated once.
///
/// On CUDA the rows' gradients are written to a workspace all the same in these cases:
/// Pooling::max, up to 2,048 places of ids, a width that is not a multiple of 4, a width above 128
/// with a rule that has one state per row, LAMB, and an output gradient of half precision unless
/// the rule is SGD, or row-wise Adagrad with a width of 128. In the other cases table, state and
/// output gradient must begin at a multiple of four elements, as tensors and their rows do.
/// Deterministic; asynchronous; capture-safe. Throws std::invalid_argument for shapes and state
/// that do not fit.
template <Element T, Element G, Runtime R>
void update_embedding(OptimizerRule const& rule,
                      StepCounter<R> const& step,
                      Tensor<T, R> const& table,
                      OptimizerState<R> const& state,
                      Bags<R> const& bags,
                      UniqueRows<R> const& unique,
                      Pooling pooling,
                      Tensor<G, R> const& output_gradient,
                      std::optional<Tensor<std::int32_t, R>> const& argmax = {},
                      std::source_location issued_at = std::source_location::current()) {
  detail::update_embedding(rule,
                           step,
                           table.any(),
                           state,
                           bags,
                           unique,
                           pooling,
                           output_gradient.any(),
                           argmax,
                           issued_at);
}

}  // namespace msstream::ops
