// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/base/log_line.hpp>
#include <msstream/order/position_set.hpp>
#include <msstream/step/captured_step.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace msstream {

struct CapturedStepsOptions {
  /// The capacities, ascending, in examples, ids or any other unit. A batch runs in the step that
  /// was captured for the smallest capacity that holds it.
  std::vector<std::int64_t> capacities = {};
  /// The most captured steps that are kept. Each has its own inputs and memory; capacities share
  /// none of it. If there are more steps, or if there is no memory for another one, the least
  /// recently used step is evicted.
  std::size_t most_kept = 8;
  /// The number of batches of a capacity that run eagerly before its step is captured, so that
  /// objects that are created on first use exist at capture.
  std::int64_t eager_first = 1;
  /// Receives one line for each capacity that stays eager, and for the 1st, 2nd, 4th, 8th … capture
  /// of a capacity, eviction of a step, and batch that is above every capacity.
  std::function<void(std::string const&)> log = log_line;
};

/// The numbers of batches by the way in which they ran, of captures and of evictions.
struct CapturedStepsCounts {
  std::uint64_t replays = 0;  ///< by a captured step, including its first replay
  std::uint64_t captures = 0;
  std::uint64_t evictions = 0;     ///< steps evicted for their number or for lack of memory
  std::uint64_t eager_first = 0;   ///< eager, before the capture for their capacity
  std::uint64_t too_large = 0;     ///< eager, because they are above every capacity
  std::uint64_t not_captured = 0;  ///< eager, because the capture for their capacity failed
};

/// A step for batches of any size. It is captured for several capacities, and each batch is run by
/// a replay for a capacity that holds it.
///
///     CapturedSteps steps(
///         device,
///         [&](std::int64_t capacity) { return Inputs(device, capacity); },
///         [&](Inputs const& inputs) { return train(inputs); },  // the loss
///         {.capacities = {256, 1024, 4096}});
///     for (...) {
///       auto const loss = steps.run(batch.ids, [&](Inputs const& inputs) { inputs.take(batch); });
///     }
///
/// Each capacity has its own inputs, which are made when first needed. `fill` writes a batch into
/// them in place, by copies or any other operations. The step reads on the device how much of the
/// capacity the batch fills. A batch that is above every capacity gets inputs of its size and runs
/// eagerly. If the capture for a capacity fails, because of an operation that may not be captured
/// or for lack of memory with no other step to evict, but the step runs eagerly, later batches of
/// that capacity run eagerly.
///
/// Each capacity's step has its own memory, for its inputs and for all tensors that it creates, and
/// the memory of all kept steps adds up. If memory runs out, other steps are evicted, the least
/// recently used first; the host waits for the last replay of an evicted step. After each eviction,
/// the call that threw OutOfMemory is repeated: `make`; `fill`, which must tolerate a second call;
/// the capture, in which nothing runs; and an eager step that has issued nothing to the device. An
/// eager step that has issued operations is not repeated, because these may include an update of
/// parameters; its OutOfMemory is passed to the caller, and a step is evicted all the same, for the
/// next batch. State that a step keeps on the host, such as a tape, must be cleared at the
/// beginning of each call. Capacities that do not fit into memory together are captured again each
/// time they are needed; see `counts().evictions`. Not synchronised.
template <CapturingRuntime R, class Inputs, class Result>
class CapturedSteps {
 public:
  using Make = std::function<Inputs(std::int64_t capacity)>;
  using Step = std::function<Result(Inputs const&)>;

  /// Throws std::invalid_argument for capacities that are not positive and ascending, and for
  /// `most_kept` or `eager_first` out of range.
  CapturedSteps(Device<R> device, Make make, Step step, CapturedStepsOptions options)
      : device_(std::move(device)),
        make_(std::move(make)),
        step_(std::move(step)),
        options_(std::move(options)) {
    require(options_.most_kept >= 1, "CapturedSteps: most_kept is 0; expected at least 1");
    require(options_.eager_first >= 0,
            "CapturedSteps: eager_first is ",
            options_.eager_first,
            "; expected at least 0");
    for (auto const capacity : options_.capacities) {
      require(capacity > (capacities_.empty() ? 0 : capacities_.back().count),
              "CapturedSteps: a capacity of ",
              capacity,
              " after ",
              capacities_.empty() ? 0 : capacities_.back().count,
              "; expected them positive and ascending");
      capacities_.push_back({capacity, 0, nullptr});
    }
  }

  /// Runs the step on a batch of `count` and returns its result. A captured step returns the same
  /// tensors each time; each replay writes them. Exceptions of `fill`, of the making of inputs and
  /// of the step are passed to the caller; the next batch starts again at the part that failed.
  template <class Fill>
  Result run(std::int64_t count,
             Fill&& fill,
             std::source_location issued_at = std::source_location::current()) {
    require(count >= 0, "CapturedSteps: a batch of ", count, "; expected at least 0");
    auto const found =
        std::ranges::lower_bound(capacities_, count, {}, [](auto const& c) { return c.count; });
    if (found == capacities_.end()) {
      return run_too_large(count, fill);
    }
    Capacity& own = *found;
    auto& kept = with_memory(&own, [&]() -> Kept& { return keep(own); });
    with_memory(&own, [&] { fill(std::as_const(kept.inputs)); });
    if (!kept.step && own.eager_runs < options_.eager_first) {
      auto result = run_eagerly(&own, kept.inputs);
      ++own.eager_runs;
      ++counts_.eager_first;
      return result;
    }
    if (own.stays_eager) {
      ++counts_.not_captured;
      return run_eagerly(&own, kept.inputs);
    }
    if (!kept.step) {
      try {
        with_memory(&own, [&] { capture(kept); });
      } catch (std::exception const& error) {
        return run_not_captured(own, error);
      }
      ++counts_.captures;
      log_seldom(
          ++own.captures, "captured for up to ", own.count, ", when a batch of ", count, " came");
    }
    kept.last_replay = kept.step->replay(issued_at);
    ++counts_.replays;
    return *kept.result;
  }

  [[nodiscard]] CapturedStepsCounts const& counts() const noexcept { return counts_; }

 private:
  struct Kept {
    explicit Kept(Inputs made) : inputs(std::move(made)) {}
    Inputs inputs;
    std::optional<Result> result = {};
    std::unique_ptr<CapturedStep<R>> step = {};
    std::optional<order::Position> last_replay = {};
    std::uint64_t last_used = 0;
  };
  struct Capacity {
    std::int64_t count;
    std::int64_t eager_runs;
    std::unique_ptr<Kept> kept;
    std::uint64_t captures = 0;
    bool stays_eager = false;
  };

  Kept& keep(Capacity& capacity) {
    if (capacity.kept == nullptr) {
      make_room();  // before the inputs are made, so that never more than `most_kept` exist
      capacity.kept = std::make_unique<Kept>(make_(capacity.count));
    }
    capacity.kept->last_used = ++uses_;
    return *capacity.kept;
  }
  void capture(Kept& kept) {
    try {
      kept.step = std::make_unique<CapturedStep<R>>(
          device_, [&] { kept.result.emplace(step_(kept.inputs)); });
    } catch (...) {
      kept.result.reset();  // the result may own memory of the failed capture
      throw;
    }
  }
  void make_room() {
    auto const kept = std::ranges::count_if(capacities_, &is_kept);
    if (static_cast<std::size_t>(kept) >= options_.most_kept) {
      evict(*oldest(nullptr), text("the least recently used of ", options_.most_kept));
    }
  }

  [[nodiscard]] static bool is_kept(Capacity const& capacity) noexcept {
    return capacity.kept != nullptr;
  }
  /// Returns the least recently used capacity that is kept, other than `own`, or null if there is
  /// none.
  [[nodiscard]] Capacity* oldest(Capacity const* own) {
    Capacity* found = nullptr;
    for (auto& capacity : capacities_) {
      if (is_kept(capacity) && &capacity != own &&
          (found == nullptr || capacity.kept->last_used < found->kept->last_used)) {
        found = &capacity;
      }
    }
    return found;
  }
  void evict(Capacity& capacity, std::string const& why) {
    if (capacity.kept->last_replay) {
      going_.add(*capacity.kept->last_replay);
    }
    capacity.kept = nullptr;
    ++counts_.evictions;
    log_seldom(counts_.evictions,
               "the step for up to ",
               capacity.count,
               " goes, ",
               why,
               ", the ",
               counts_.evictions,
               ". to go");
  }

  /// Returns what `attempt()` returns. If it throws OutOfMemory, evicts the least recently used
  /// step other than `own`; then calls it again if `may_repeat()` returns true, and throws
  /// otherwise. Throws if no other step is left.
  template <class Attempt, class MayRepeat>
  std::invoke_result_t<Attempt> with_memory(Capacity const* own,
                                            Attempt&& attempt,
                                            MayRepeat&& may_repeat) {
    for (;;) {
      try {
        return attempt();
      } catch (OutOfMemory const& error) {
        bool const again = may_repeat();
        if (!find_memory(own, error) || !again) {
          throw;
        }
      }
    }
  }
  template <class Attempt>
  std::invoke_result_t<Attempt> with_memory(Capacity const* own, Attempt&& attempt) {
    return with_memory(own, attempt, [] { return true; });
  }
  /// Frees memory, either of an evicted step that was still running, or by the eviction of one more
  /// step. Blocks the host until the memory is free. Returns false if there is no step to evict.
  bool find_memory(Capacity const* own, OutOfMemory const& error) {
    if (settle_going()) {
      return true;
    }
    auto* const other = oldest(own);
    if (other == nullptr) {
      return false;
    }
    std::string_view const what = error.what();
    evict(*other, text("the least recently used, since ", what.substr(0, what.find('\n'))));
    settle_going();
    return true;
  }
  /// Waits for the last replays of evicted steps and releases their memory. Returns whether any of
  /// them was still running.
  bool settle_going() {
    return detail::settle_replays(device_.engine(), std::exchange(going_, {}));
  }

  /// Runs the step eagerly. The step is not repeated if any thread has issued an operation to the
  /// device meanwhile.
  Result run_eagerly(Capacity const* own, Inputs const& inputs) {
    auto const issued = device_.operation_count();
    return with_memory(
        own, [&] { return step_(inputs); }, [&] { return device_.operation_count() == issued; });
  }
  /// Runs the step eagerly after its capture has failed with `error`. If the eager step succeeds,
  /// the capacity stays eager; if it throws, the capture was not the cause, and the exception is
  /// passed on.
  Result run_not_captured(Capacity& capacity, std::exception const& error) {
    auto result = run_eagerly(&capacity, capacity.kept->inputs);
    capacity.stays_eager = true;
    ++counts_.not_captured;
    log("batches of up to ", capacity.count, " run eagerly from here on, since ", error.what());
    return result;
  }
  template <class Fill>
  Result run_too_large(std::int64_t count, Fill& fill) {
    ++counts_.too_large;
    log_seldom(counts_.too_large,
               "a batch of ",
               count,
               " is above the largest capacity, ",
               capacities_.empty() ? 0 : capacities_.back().count,
               ", and runs eagerly, the ",
               counts_.too_large,
               ". to do so");
    Inputs const inputs = with_memory(nullptr, [&] { return make_(count); });
    with_memory(nullptr, [&] { fill(inputs); });
    return run_eagerly(nullptr, inputs);
  }

  template <class... Words>
  void log(Words const&... words) const {
    if (options_.log) {
      options_.log(text("msstream: captured steps: ", words...));
    }
  }

  /// Logs the 1st, 2nd, 4th, 8th … occurrence.
  template <class... Words>
  void log_seldom(std::uint64_t times, Words const&... words) const {
    if (std::has_single_bit(times)) {
      log(words...);
    }
  }

  Device<R> device_;
  Make make_;
  Step step_;
  CapturedStepsOptions options_;
  std::vector<Capacity> capacities_;
  CapturedStepsCounts counts_;
  std::uint64_t uses_ = 0;
  order::PositionSet going_;  ///< last replays of evicted steps
};

template <CapturingRuntime R, class Make, class Step>
CapturedSteps(Device<R>, Make, Step, CapturedStepsOptions)
    -> CapturedSteps<R,
                     std::invoke_result_t<Make, std::int64_t>,
                     std::invoke_result_t<Step, std::invoke_result_t<Make, std::int64_t> const&>>;

}  // namespace msstream
