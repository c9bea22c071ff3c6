// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/default_runtime.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/parameters.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>

namespace msstream {

/// Finds the first operation of training steps that made a NaN or an infinity. For debugging.
///
/// A guard. While it lives, the results of operations that its tape records, the gradients that
/// they compute in backward(), and the weights that Optimizer::step() updates by the tape's
/// gradients are searched, in the order in which they were issued: one more launch for each, which
/// waits for the one before. If the first such result has inputs that no recorded operation made,
/// data and parameters, and that have a NaN or an infinity themselves, they are named instead; each
/// such input is a launch, too. Up to 65,535 operations between two calls of GradientTape::clear();
/// one more throws std::length_error. Nothing waits on the host. In a capture, the searches become
/// part of the graph, and the guard must live as long as its replays. A tape without a guard costs
/// nothing.
///
///   NonFiniteLocator const locator(tape, parameters);
///   ... loss, tape.backward(loss), optimizer.step(tape) ...
///   locator.require_finite();   // backward of "dense" in "top/1", called at model.hpp:41, made
///   ...
///
/// With the model's parameters, a finding names the layer, after the parameters that the operation
/// read. Not synchronised. A tape has at most one guard, and must outlive it.
template <Runtime R = DefaultRuntime>
class NonFiniteLocator;

/// The implementation of NonFiniteLocator<R>, compiled once for all runtimes.
template <>
class NonFiniteLocator<detail::AnyRuntime> {
 public:
  /// The part of a step in which a NaN or an infinity was found.
  enum class Phase : std::uint8_t {
    forward,
    backward,
    update,
    input,  ///< before the operation, in a tensor that it read and that no recorded operation made
  };
  struct Finding {
    Phase phase;                 ///< of the step in which the operation ran
    std::string operation;       ///< name with its scopes; in an update the name of the parameter
    std::source_location place;  ///< where the program called the operation
    /// The shape of the result, the gradient, the parameter, or the input, when it was last
    /// searched. If it differs from step to step and first() is called rarely, it may be that of a
    /// later step.
    Shape shape;
    std::int64_t element;  ///< index of the first element that is NaN or infinite
    /// The parameter, such as "top/1/weight", if the element is of its gradient or its own.
    /// Otherwise the layer: the name of the one parameter that the operation read, or the path that
    /// the names of several have in common, such as "top/1". Empty if the guard was made without
    /// parameters or knows no layer.
    std::string layer;
    /// Whether the operation read no parameter. `layer` is then that from which its first input
    /// came, through operations without parameters.
    bool is_behind_layer;
  };

  /// Throws std::logic_error if the tape has a guard already. Must not be called inside a capture.
  explicit NonFiniteLocator(GradientTape<detail::AnyRuntime>& tape,
                            std::source_location issued_at = std::source_location::current());
  /// Findings name layers after these parameters and those that the store makes later.
  NonFiniteLocator(GradientTape<detail::AnyRuntime>& tape,
                   Parameters<detail::AnyRuntime> const& parameters,
                   std::source_location issued_at = std::source_location::current());
  NonFiniteLocator(NonFiniteLocator const&) = delete;
  NonFiniteLocator& operator=(NonFiniteLocator const&) = delete;
  ~NonFiniteLocator();

  /// Waits for the searches that were issued, and returns the first finding since the guard was
  /// made or forget() was called.
  [[nodiscard]] std::optional<Finding> first(
      std::source_location issued_at = std::source_location::current()) const;
  /// Waits in the same way. Throws std::runtime_error that names the first finding.
  void require_finite(std::source_location issued_at = std::source_location::current()) const;
  /// Forgets the finding.
  void forget(std::source_location issued_at = std::source_location::current());

 private:
  NonFiniteLocator(GradientTape<detail::AnyRuntime>& tape,
                   std::optional<Parameters<detail::AnyRuntime>> parameters,
                   std::source_location issued_at);

  GradientTape<detail::AnyRuntime>& tape_;
};

template <Runtime R>
class NonFiniteLocator : public NonFiniteLocator<detail::AnyRuntime> {
 public:
  explicit NonFiniteLocator(GradientTape<R>& tape,
                            std::source_location issued_at = std::source_location::current())
      : NonFiniteLocator<detail::AnyRuntime>(tape, issued_at) {}
  NonFiniteLocator(GradientTape<R>& tape,
                   Parameters<R> const& parameters,
                   std::source_location issued_at = std::source_location::current())
      : NonFiniteLocator<detail::AnyRuntime>(tape, parameters, issued_at) {}
};

template <Runtime R>
NonFiniteLocator(GradientTape<R>&) -> NonFiniteLocator<R>;
template <Runtime R>
NonFiniteLocator(GradientTape<R>&, std::source_location) -> NonFiniteLocator<R>;
template <Runtime R>
NonFiniteLocator(GradientTape<R>&, Parameters<R>) -> NonFiniteLocator<R>;
template <Runtime R>
NonFiniteLocator(GradientTape<R>&, Parameters<R>, std::source_location) -> NonFiniteLocator<R>;

}  // namespace msstream
