// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/require.hpp>
#include <msstream/base/error.hpp>
#include <msstream/capture/detail/any_captured_step.hpp>
#include <msstream/order/detail/position_set.hpp>
#include <msstream/step/captured_step.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <string_view>

namespace msstream::detail {

class AnyCapturedSteps::State {
 public:
  State(AnyDevice device, Make make, Options options)
      : device_(std::move(device)), make_(std::move(make)), options_(std::move(options)) {
    require(options_.most_kept >= 1, "CapturedSteps: most_kept is 0; expected at least 1");
    require(options_.eager_first >= 0,
            "CapturedSteps: eager_first is {}; expected at least 0",
            options_.eager_first);
    for (auto const capacity : options_.capacities) {
      require(capacity > (capacities_.empty() ? 0 : capacities_.back().count),
              "CapturedSteps: a capacity of {} after {}; expected them positive and ascending",
              capacity,
              capacities_.empty() ? 0 : capacities_.back().count);
      capacities_.push_back({capacity, 0, nullptr});
    }
  }

  Ran run(std::int64_t count, Fill const& fill, std::source_location issued_at) {
    require(count >= 0, "CapturedSteps: a batch of {}; expected at least 0", count);
    auto const found =
        std::ranges::lower_bound(capacities_, count, {}, [](auto const& c) { return c.count; });
    if (found == capacities_.end()) {
      return run_too_large(count, fill);
    }
    Capacity& own = *found;
    auto& kept = with_memory(&own, [&]() -> Kept& { return keep(own); });
    with_memory(&own, [&] { fill(*kept.inputs); });
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
          ++own.captures, "captured for up to {}, when a batch of {} came", own.count, count);
    }
    kept.last_replay = kept.step->replay(issued_at);
    ++counts_.replays;
    return {kept.inputs, true};
  }

  [[nodiscard]] Counts const& counts() const noexcept { return counts_; }

 private:
  struct Kept {
    explicit Kept(std::shared_ptr<InputsOfStep> made) : inputs(std::move(made)) {}
    std::shared_ptr<InputsOfStep> inputs;
    std::unique_ptr<AnyCapturedStep> step = {};
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
      make_room();  // evicts first, so that at most `most_kept` inputs exist at any time
      capacity.kept = std::make_unique<Kept>(make_(capacity.count));
    }
    capacity.kept->last_used = ++uses_;
    return *capacity.kept;
  }
  void capture(Kept& kept) {
    try {
      kept.step = std::make_unique<AnyCapturedStep>(device_, nullptr, [&] { kept.inputs->run(); });
    } catch (...) {
      kept.inputs->drop_result();  // the result may own memory of the failed capture
      throw;
    }
  }
  void make_room() {
    auto const kept = std::ranges::count_if(capacities_, &is_kept);
    if (static_cast<std::size_t>(kept) >= options_.most_kept) {
      evict(*oldest(nullptr), fmt::format("the least recently used of {}", options_.most_kept));
    }
  }

  [[nodiscard]] static bool is_kept(Capacity const& capacity) noexcept {
    return capacity.kept != nullptr;
  }
  /// Returns the least recently used capacity that has a kept step, except for `own`. Returns null
  /// if there is none.
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
               "the step for up to {} goes, {}, the {}. to go",
               capacity.count,
               why,
               counts_.evictions);
  }

  /// Calls `attempt()` and returns its result. If it throws OutOfMemory, frees the memory of an
  /// evicted step, or evicts the least recently used step other than `own`, and then calls
  /// `attempt()` again if `may_repeat()` returns true; otherwise rethrows. Rethrows also if there
  /// is no step to evict.
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
  /// Frees memory: waits for evicted steps that are still running, or else evicts one more step.
  /// Blocks the host until the memory is free. Returns false if there is no step to evict.
  bool find_memory(Capacity const* own, OutOfMemory const& error) {
    if (settle_going()) {
      return true;
    }
    auto* const other = oldest(own);
    if (other == nullptr) {
      return false;
    }
    std::string_view const what = error.what();
    evict(*other,
          fmt::format("the least recently used, since {}", what.substr(0, what.find('\n'))));
    settle_going();
    return true;
  }
  /// Waits for the last replays of evicted steps, and releases the memory of these steps. Returns
  /// whether any of them was still running.
  bool settle_going() { return settle_replays(device_, std::exchange(going_, {})); }

  /// Runs the step without a capture. If memory runs out, the step is repeated only if no thread
  /// has issued an operation to the device since it began.
  Ran run_eagerly(Capacity const* own, std::shared_ptr<InputsOfStep> const& inputs) {
    auto const issued = device_.operation_count();
    with_memory(
        own, [&] { inputs->run(); }, [&] { return device_.operation_count() == issued; });
    return {inputs, false};
  }
  /// Runs the step without a capture after its capture has failed with `error`. If it succeeds,
  /// steps of this capacity are not captured any more. If it throws, the capture was not the cause
  /// of the failure, and the exception is passed on.
  Ran run_not_captured(Capacity& capacity, std::exception const& error) {
    auto result = run_eagerly(&capacity, capacity.kept->inputs);
    capacity.stays_eager = true;
    ++counts_.not_captured;
    log("batches of up to {} run eagerly from here on, since {}", capacity.count, error.what());
    return result;
  }
  Ran run_too_large(std::int64_t count, Fill const& fill) {
    ++counts_.too_large;
    log_seldom(
        counts_.too_large,
        "a batch of {} is above the largest capacity, {}, and runs eagerly, the {}. to do so",
        count,
        capacities_.empty() ? 0 : capacities_.back().count,
        counts_.too_large);
    auto const inputs = with_memory(nullptr, [&] { return make_(count); });
    with_memory(nullptr, [&] { fill(*inputs); });
    return run_eagerly(nullptr, inputs);
  }

  template <class... Values>
  void log(fmt::format_string<Values const&...> format, Values const&... values) const {
    if (options_.log) {
      options_.log("msstream: captured steps: " + fmt::format(format, values...));
    }
  }

  /// Logs a message only on the 1st, 2nd, 4th, 8th … occurrence.
  template <class... Values>
  void log_seldom(std::uint64_t times,
                  fmt::format_string<Values const&...> format,
                  Values const&... values) const {
    if (std::has_single_bit(times)) {
      log(format, values...);
    }
  }

  AnyDevice device_;
  Make make_;
  Options options_;
  std::vector<Capacity> capacities_;
  Counts counts_;
  std::uint64_t uses_ = 0;
  order::PositionSet going_;  ///< positions of the last replays of evicted steps
};

AnyCapturedSteps::AnyCapturedSteps(AnyDevice device, Make make, Options options)
    : state_(std::make_unique<State>(std::move(device), std::move(make), std::move(options))) {}
AnyCapturedSteps::AnyCapturedSteps(AnyCapturedSteps&&) noexcept = default;
AnyCapturedSteps& AnyCapturedSteps::operator=(AnyCapturedSteps&&) noexcept = default;
AnyCapturedSteps::~AnyCapturedSteps() = default;

AnyCapturedSteps::Ran AnyCapturedSteps::run(std::int64_t count,
                                            Fill const& fill,
                                            std::source_location issued_at) {
  return state_->run(count, fill, issued_at);
}

AnyCapturedSteps::Counts const& AnyCapturedSteps::counts() const noexcept {
  return state_->counts();
}

}  // namespace msstream::detail
