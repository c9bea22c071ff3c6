// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/default_runtime.hpp>
#include <msstream/step/gradient_tape.hpp>

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
///   NonFiniteLocator const locator(tape);
///   ... loss, tape.backward(loss), optimizer.step(tape) ...
///   locator.require_finite();   // backward of "tower/log", called at model.hpp:41, made ...
///
/// Not synchronised. A tape has at most one guard, and must outlive it.
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
  };

  /// Throws std::logic_error if the tape has a guard already. Must not be called inside a capture.
  explicit NonFiniteLocator(GradientTape<detail::AnyRuntime>& tape,
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
  GradientTape<detail::AnyRuntime>& tape_;
};

template <Runtime R>
class NonFiniteLocator : public NonFiniteLocator<detail::AnyRuntime> {
 public:
  explicit NonFiniteLocator(GradientTape<R>& tape,
                            std::source_location issued_at = std::source_location::current())
      : NonFiniteLocator<detail::AnyRuntime>(tape, issued_at) {}
};

template <Runtime R>
NonFiniteLocator(GradientTape<R>&) -> NonFiniteLocator<R>;
template <Runtime R>
NonFiniteLocator(GradientTape<R>&, std::source_location) -> NonFiniteLocator<R>;

}  // namespace msstream
