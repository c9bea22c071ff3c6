// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/host_state.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/ops/optimizer.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/step/parameters.hpp>
#include <msstream/tensor/detail/typed.hpp>
#include <msstream/tensor/tensor.hpp>

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>

namespace msstream {

/// Exponential moving averages of parameters: average = decay * average + (1 - decay) * weight
/// after each update, beginning with the weight. Averages are of float32, also those of tables of
/// 16 bits. Takes as much memory as the parameters in float32, and update() reads and writes all of
/// them, so leave large tables out. Not synchronised. Does not block the host.
template <Runtime R = DefaultRuntime>
class ParameterAverages;

/// The implementation of ParameterAverages<R>, compiled once for all runtimes.
template <>
class ParameterAverages<detail::AnyRuntime> {
 public:
  explicit ParameterAverages(float decay);
  ParameterAverages(ParameterAverages const&) = delete;
  ParameterAverages& operator=(ParameterAverages const&) = delete;
  ~ParameterAverages();

  /// A guard. While it lives, the parameters have the values of their averages, for evaluation.
  /// Optimizer::step(), update(), and saving or loading a checkpoint of them throw std::logic_error
  /// meanwhile. Replays of steps that were captured before are not noticed.
  class Swapped {
   public:
    /// Calls restore(). Writes an exception to the standard error stream.
    ~Swapped();
    /// Gives the parameters their own values back. Does nothing if it was called before.
    void restore(std::source_location issued_at = std::source_location::current());
    Swapped(Swapped const&) = delete;
    Swapped& operator=(Swapped const&) = delete;

   private:
    friend ParameterAverages;
    Swapped(ParameterAverages& averages, std::source_location issued_at);
    ParameterAverages& averages_;
    std::source_location issued_at_;
    bool is_restored_ = false;
  };

  /// Adds the weights to the averages, in one launch for up to 48 parameters. Call update() after
  /// each Optimizer::step(), also inside a captured step. Throws std::logic_error while the
  /// averages are swapped in.
  void update(std::source_location issued_at = std::source_location::current());
  /// Begins anew: gives the averages the present values of the weights. For weights that something
  /// else than training has changed, such as checkpoint::load() of a file without averages. Throws
  /// std::logic_error while the averages are swapped in.
  void restart(std::source_location issued_at = std::source_location::current());
  /// Exchanges weights and averages until the guard is destroyed; afterwards both have their bits
  /// of before. Weights of 16 bits have rounded averages, and are kept in memory that is allocated
  /// meanwhile. The tensors stay the same, so captured steps and inference use the averages too.
  /// Throws std::logic_error if they are swapped in already, and for a frozen parameter.
  [[nodiscard("without a name the guard goes at once")]] Swapped swap_in(
      std::source_location issued_at = std::source_location::current()) {
    return Swapped(*this, issued_at);
  }

  void add(std::string name, detail::AnyTensor const& weight, std::source_location issued_at);
  void add(Parameters<detail::AnyRuntime> const& parameters,
           std::optional<std::string> const& names,
           std::source_location issued_at);
  [[nodiscard]] detail::SourceCheck visit_as_weights(
      Parameters<detail::AnyRuntime> const& parameters,
      std::function<void(std::string const&, detail::AnyTensor const&)> const& visit,
      std::source_location issued_at) const;
  void visit_state(
      std::function<void(std::string const&, detail::Floats const&)> const& visit) const;

 private:
  class State;
  std::unique_ptr<State> const state_;
};

template <Runtime R>
class ParameterAverages : public ParameterAverages<detail::AnyRuntime> {
  using Body = ParameterAverages<detail::AnyRuntime>;

 public:
  /// Throws std::invalid_argument for a decay outside [0, 1).
  explicit ParameterAverages(float decay) : Body(decay) {}

  /// Adds a parameter, whose average begins with its present value. Throws std::invalid_argument
  /// for a name that is in use, for a tensor that shares elements with an earlier one, and for a
  /// frozen tensor.
  template <Element T>
    requires std::constructible_from<ops::AnyTable<R>, Tensor<T, R>>
  void add(std::string name,
           Tensor<T, R> const& weight,
           std::source_location issued_at = std::source_location::current()) {
    Body::add(std::move(name), weight.any(), issued_at);
  }
  /// Adds every dense parameter of the store that is not frozen and has no average yet, under its
  /// name. Parameters that the store gets later are not added by themselves; call again. Throws
  /// what add() throws for one of them, before any is added.
  void add(Parameters<R> const& parameters,
           std::source_location issued_at = std::source_location::current()) {
    Body::add(parameters, std::nullopt, issued_at);
  }
  /// Adds only those whose whole name the pattern matches, tables among them: see
  /// Parameters::freeze(). Throws std::invalid_argument, before any is added, if the pattern
  /// matches no such parameter.
  void add(Parameters<R> const& parameters,
           std::string const& names,
           std::source_location issued_at = std::source_location::current()) {
    Body::add(parameters, names, issued_at);
  }
  /// Returns a source for checkpoint::Tensors, to save a model for serving: all parameters of the
  /// store under their names, those that have an average with the values of the average, rounded to
  /// the type of the parameter when the list is saved. Pass it to a list while the averages live.
  /// Making the list throws std::logic_error while the averages are
  /// swapped in, and std::invalid_argument if no parameter of the store has an average.
  [[nodiscard]] auto as_weights(
      Parameters<R> const& parameters,
      std::source_location issued_at = std::source_location::current()) const {
    return [this, parameters, issued_at](auto const& visit) {
      auto const round_again = Body::visit_as_weights(
          parameters,
          [&](std::string const& name, detail::AnyTensor const& any) {
            detail::visit_weights<R>(visit, name, any);
          },
          issued_at);
      if constexpr (detail::TakesHostState<std::remove_cvref_t<decltype(visit)>>) {
        if (round_again) {
          visit(round_again);
        }
      }
    };
  }

  /// Passes visit(name, average) all averages, for checkpoints that resume the training. Throws
  /// std::logic_error while they are swapped in.
  template <class Visit>
  void visit_state(Visit&& visit) const {
    Body::visit_state([&](std::string const& name, detail::Floats const& average) {
      visit(name, detail::typed<R>(average));
    });
  }
};

}  // namespace msstream
