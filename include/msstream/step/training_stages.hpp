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

/// The updates that the lookups of a batch see if they are issued beside the training on the
/// previous batch.
enum class Staleness : std::uint8_t {
  exact,          ///< all updates; gives the bits of sequential training
  one_step_stale  ///< all updates except that by the previous batch
};

template <Runtime R = DefaultRuntime>
struct TwoStageOptions {
  StreamGroup<R> first;  ///< receives the stages that are issued ahead
  StreamGroup<R> main;   ///< receives the other stages
  Staleness staleness = Staleness::exact;
};

namespace detail {

/// The user's stages of training on a batch. TwoStageOptions has the groups to which they are
/// issued.
template <Runtime R, class Batch, class Prepared, class Features, class Result>
struct TrainingStages {
  std::function<Prepared(GradientTape<R>&, Batch const&)> prepare;
  std::function<Features(GradientTape<R>&, Prepared const&)> embed;
  std::function<Result(GradientTape<R>&, Features const&)> main;
  std::function<void(GradientTape<R>&)> update;
};

/// A batch on its way through the stages. It has its own tape, so that another batch may be in
/// flight beside it. Its stages are issued to the current group.
template <Runtime R, class Batch, class Prepared, class Features, class Result>
class StagedBatch {
 public:
  using Stages = TrainingStages<R, Batch, Prepared, Features, Result>;

  /// Makes a batch; `stages` must outlive it.
  StagedBatch(Device<R> device, Stages const& stages, Staleness staleness)
      : stages_(stages), is_exact_(staleness == Staleness::exact), tape_(std::move(device)) {}

  /// Issues the stages that may be issued before the main stage of the previous batch.
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

/// Two slots for batches, one of which is in flight while the next batch begins in the other. A
/// Place has `begin(batch, issued_at)`, `finish(issued_at)`, which returns a Result, and
/// `forget()`, which drops its batch.
template <class Place, class Result>
class TwoPlaces {
 public:
  template <class... Arguments>
  explicit TwoPlaces(Arguments const&... arguments)
      : places_{Place(arguments...), Place(arguments...)} {}

  /// Begins a batch, then finishes the previous batch. If begin() throws, the previous batch stays
  /// in flight; if finish() throws, this batch does. Operations that a slot issues have the source
  /// location `issued_at`.
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

/// The type of a stage's argument besides the tape, for a function object without overloads.
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
