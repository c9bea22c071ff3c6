// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/order/position_set.hpp>
#include <msstream/step/captured_step.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
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
  /// For how many examples, ids or whatever counts, ascending: a batch is run by the step captured
  /// for the least capacity that holds it.
  std::vector<std::int64_t> capacities = {};
  /// Captured steps that are kept, with their inputs and memory, which adds up: nothing of it is
  /// shared between capacities. Beyond, and when there is no memory for another one, the least
  /// recently used goes.
  std::size_t most_kept = 8;
  /// How many batches of a capacity run eagerly before its step is captured: what is made when
  /// first needed is then there.
  std::int64_t eager_first = 1;
  /// Gets a line for each capacity that stays eager, and for the 1st, 2nd, 4th, 8th … capture for a
  /// capacity, step that goes, and batch that is above every capacity.
  std::function<void(std::string const&)> log = [](std::string const& line) {
    std::clog << line << std::endl;
  };
};

/// How the batches so far were run.
struct CapturedStepsCounts {
  std::uint64_t replays = 0;  ///< by a captured step, the first one of each included
  std::uint64_t captures = 0;
  std::uint64_t evictions = 0;     ///< steps that had to go, by count or for lack of memory
  std::uint64_t eager_first = 0;   ///< eagerly, before the capture for their capacity
  std::uint64_t too_large = 0;     ///< eagerly, because they are above every capacity
  std::uint64_t not_captured = 0;  ///< eagerly, because the capture for their capacity failed
};

/// A step for batches of any size: captured for some capacities, and replayed for each batch that
/// fits.
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
/// Each capacity has inputs of its own, made when first needed. `fill` writes a batch into them in
/// place, by copies or any other operations; the step reads on the device how much of the capacity
/// the batch fills. A batch that is above every capacity gets inputs of its size, and runs eagerly.
/// So do, from then on, the batches of a capacity whose capture failed, though the step itself ran:
/// because of an operation that may not be captured, or for lack of memory with no other step left.
///
/// Each capacity's step has memory of its own, for all that it makes inside and for its inputs, and
/// that of all kept ones adds up. Where there is no memory for one, the others go, the least
/// recently used first; the host then waits for the last replay of the one that goes. What threw
/// OutOfMemory is called again each time: `make`; `fill`, which must stand being called twice; the
/// capture, in which nothing runs; and an eager step that has issued nothing to the device. An
/// eager step that stopped half way is not: what it issued, an update of parameters perhaps, has
/// happened. Its OutOfMemory goes to the caller, and another step goes all the same, for the next
/// batch. What a step keeps on the host, such as a tape, it must clear first when it is called.
/// Capacities that do not fit together are captured again whenever their turn comes; see
/// `counts().evictions`. Not synchronised.
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

  /// Runs the step on a batch of `count`, and returns what the step returns: of a captured step the
  /// same tensors each time, written by each replay. What `fill`, the making of inputs or the step
  /// throws goes to the caller, and the next batch begins anew where that left off.
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
      make_room();  // first, so that the inputs of one more than `most_kept` are never there
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
      kept.result.reset();  // it has memory of the capture
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
  /// The least recently used one that is kept; null: there is none but `own`.
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

  /// What `attempt()` returns, which is called again without another step than `own`, and once more
  /// without the next, as long as it finds no memory, `may_repeat()`, and there is one.
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
  /// Whether memory has come back: of a step that went and was still running, or of one that goes
  /// now. Blocks the host until it has.
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
  /// Whether there was something to wait for. What retired steps had is free afterwards.
  bool settle_going() {
    auto& tracker = *device_.context()->tracker;
    bool waited = false;
    for (auto const& replay : std::exchange(going_, {})) {
      if (!tracker.is_complete(replay)) {
        tracker.synchronize(replay);
        waited = true;
      }
    }
    device_.state()->memory.captures().sweep();
    return waited;
  }

  /// Other threads' operations count as its own: then it is not called again, either.
  Result run_eagerly(Capacity const* own, Inputs const& inputs) {
    auto const issued = device_.operation_count();
    return with_memory(
        own, [&] { return step_(inputs); }, [&] { return device_.operation_count() == issued; });
  }
  /// Throws what the step throws: then it was no matter of the capture.
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

  /// For the 1st, 2nd, 4th, 8th … time.
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
  order::PositionSet going_;  ///< last replays of steps that went
};

template <CapturingRuntime R, class Make, class Step>
CapturedSteps(Device<R>, Make, Step, CapturedStepsOptions)
    -> CapturedSteps<R,
                     std::invoke_result_t<Make, std::int64_t>,
                     std::invoke_result_t<Step, std::invoke_result_t<Make, std::int64_t> const&>>;

}  // namespace msstream
