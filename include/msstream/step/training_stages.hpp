// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/default_runtime.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace msstream {

/// What the lookups of a batch see that is issued beside the training on the batch before.
enum class Staleness : std::uint8_t {
  exact,          ///< all updates: the bits of training on one batch after the other
  one_step_stale  ///< all but the update by the batch before
};

template <Runtime R = DefaultRuntime>
struct TwoStageOptions {
  StreamGroup<R>& first;  ///< of what is issued ahead
  StreamGroup<R>& main;   ///< of the rest
  Staleness staleness = Staleness::exact;
};

namespace detail {

/// The stages of training on a batch, as the user gives them, and where they are issued.
template <Runtime R, class Batch, class Prepared, class Features, class Result>
struct TrainingStages {
  std::function<Prepared(GradientTape<R>&, Batch const&)> prepare;
  std::function<Features(GradientTape<R>&, Prepared const&)> embed;
  std::function<Result(GradientTape<R>&, Features const&)> main;
  std::function<void(GradientTape<R>&)> update;
};

/// A batch on its way through the stages, with a tape of its own: another one may be on its way
/// beside it. What it issues goes to the current group.
template <Runtime R, class Batch, class Prepared, class Features, class Result>
class StagedBatch {
 public:
  using Stages = TrainingStages<R, Batch, Prepared, Features, Result>;

  /// The stages stay where they are.
  StagedBatch(Device<R> device, Stages const& stages, Staleness staleness)
      : stages_(stages), is_exact_(staleness == Staleness::exact), tape_(std::move(device)) {}

  /// What may be issued before the main stage of the batch before.
  void issue_ahead(Batch const& batch) {
    prepared_.emplace(stages_.prepare(tape_, batch));
    if (!is_exact_) {
      embed();
    }
  }
  Result issue_main() {
    if (is_exact_) {
      embed();
    }
    return stages_.main(tape_, *features_);
  }
  void issue_update() {
    stages_.update(tape_);
    forget();
  }
  void forget() {
    tape_.clear();
    features_.reset();
    prepared_.reset();
  }

 private:
  void embed() { features_.emplace(stages_.embed(tape_, *prepared_)); }

  Stages const& stages_;
  bool is_exact_;
  GradientTape<R> tape_;
  std::optional<Prepared> prepared_;
  std::optional<Features> features_;
};

/// Two places for batches, of which one is in flight while the next one begins. A Place gives
/// `begin(batch, issued_at)`, `finish(issued_at)`, which returns a Result, and `forget()`, which
/// leaves its batch out.
template <class Place, class Result>
class TwoPlaces {
 public:
  template <class... Arguments>
  explicit TwoPlaces(Arguments const&... arguments)
      : places_{Place(arguments...), Place(arguments...)} {}

  /// Begins with a batch, then finishes the one before. What beginning throws leaves the one before
  /// in flight, what finishing throws this one. What a place issues itself is of `issued_at`.
  template <class Batch>
  std::optional<Result> run(Batch const& batch, std::source_location issued_at) {
    Place& next = places_[next_];
    or_forget(next, [&] { next.begin(batch, issued_at); });
    next_ = 1 - next_;
    return finish(std::exchange(in_flight_, &next), issued_at);
  }
  std::optional<Result> finish(std::source_location issued_at) {
    return finish(std::exchange(in_flight_, nullptr), issued_at);
  }

 private:
  static std::optional<Result> finish(Place* place, std::source_location issued_at) {
    if (place == nullptr) {
      return std::nullopt;
    }
    return or_forget(*place, [&] { return std::optional<Result>(place->finish(issued_at)); });
  }
  template <class F>
  static auto or_forget(Place& place, F&& issue) {
    try {
      return std::forward<F>(issue)();
    } catch (...) {
      place.forget();
      throw;
    }
  }

  Place places_[2];
  int next_ = 0;
  Place* in_flight_ = nullptr;
};

/// What a stage that is given as a function object without overloads takes besides the tape.
template <class Stage>
struct StageInput;
template <class Result, class Tape, class Input>
struct StageInput<std::function<Result(Tape, Input)>> {
  using type = std::remove_cvref_t<Input>;
};
template <class Stage>
using stage_input_t = typename StageInput<decltype(std::function(std::declval<Stage>()))>::type;

template <class Stage, Runtime R, class Input>
using stage_result_t = std::invoke_result_t<Stage&, GradientTape<R>&, Input const&>;

}  // namespace detail
}  // namespace msstream
