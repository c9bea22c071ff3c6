// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/step/parameters.hpp>
#include <msstream/tensor/detail/typed.hpp>
#include <msstream/tensor/tensor.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <utility>

namespace msstream {

/// Exponential moving averages of parameters: average = decay * average + (1 - decay) * weight
/// after each update, beginning with the weight. Takes as much memory as the parameters, and
/// update() reads and writes all of them, so leave large tables out. Not synchronised. Does not
/// block the host.
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
  /// Exchanges weights and averages until the guard is destroyed. The tensors stay the same, so
  /// captured steps and inference use the averages too. Throws std::logic_error if they are swapped
  /// in already.
  [[nodiscard("without a name the guard goes at once")]] Swapped swap_in(
      std::source_location issued_at = std::source_location::current()) {
    return Swapped(*this, issued_at);
  }

  void add(std::string name, detail::Floats const& weight, std::source_location issued_at);
  void add(Parameters<detail::AnyRuntime> const& parameters,
           std::optional<std::string> const& names,
           std::source_location issued_at);
  void visit_as_weights(
      Parameters<detail::AnyRuntime> const& parameters,
      std::function<void(std::string const&, detail::AnyTensor const&)> const& visit) const;
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
  /// for a name that is in use and for a frozen tensor.
  void add(std::string name,
           Tensor<float, R> const& weight,
           std::source_location issued_at = std::source_location::current()) {
    Body::add(std::move(name), weight, issued_at);
  }
  /// Adds every dense parameter of the store that is not frozen and has no average yet, under its
  /// name. Parameters that the store gets later are not added by themselves; call again.
  void add(Parameters<R> const& parameters,
           std::source_location issued_at = std::source_location::current()) {
    Body::add(parameters, std::nullopt, issued_at);
  }
  /// Adds only those whose whole name the pattern matches, tables among them: see
  /// Parameters::freeze(). Throws std::invalid_argument, before any is added, if the pattern
  /// matches no such parameter, and for a table that is not of float32.
  void add(Parameters<R> const& parameters,
           std::string const& names,
           std::source_location issued_at = std::source_location::current()) {
    Body::add(parameters, names, issued_at);
  }
  /// Returns a source for checkpoint::Tensors, to save a model for serving: all parameters of the
  /// store under their names, those that have an average with the values of the average. Pass it to
  /// a list while the averages live. Making the list throws std::logic_error while the averages are
  /// swapped in, and std::invalid_argument if no parameter of the store has an average.
  [[nodiscard]] auto as_weights(Parameters<R> const& parameters) const {
    return [this, parameters](auto const& visit) {
      Body::visit_as_weights(parameters,
                             [&](std::string const& name, detail::AnyTensor const& any) {
                               detail::visit_weights<R>(visit, name, any);
                             });
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
