// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/captured_step.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace msstream {

struct CapturedStepsOptions {
  /// For how many examples, ids or whatever counts, ascending: a batch is run by the step captured
  /// for the least capacity that holds it.
  std::vector<std::int64_t> capacities = {};
  /// Captured steps that are kept, with their inputs and memory. Beyond, the least recently used
  /// goes.
  std::size_t most_kept = 8;
  /// How many batches of a capacity run eagerly before its step is captured: what is made when
  /// first needed is then there.
  std::int64_t eager_first = 1;
  /// Gets a line for each capture, done or failed, for each step that goes, and for the 1st, 2nd,
  /// 4th, 8th … batch that is above every capacity.
  std::function<void(std::string const&)> log = [](std::string const& line) {
    std::clog << line << std::endl;
  };
};

/// How the batches so far were run.
struct CapturedStepsCounts {
  std::uint64_t replays = 0;  ///< by a captured step, the first one of each included
  std::uint64_t captures = 0;
  std::uint64_t evictions = 0;     ///< captured steps that had to go
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
/// because of an operation that may not be captured, or for lack of memory. Not synchronised.
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
  Result run(std::int64_t count, Fill&& fill) {
    require(count >= 0, "CapturedSteps: a batch of ", count, "; expected at least 0");
    auto const found =
        std::ranges::lower_bound(capacities_, count, {}, [](auto const& c) { return c.count; });
    if (found == capacities_.end()) {
      return run_too_large(count, std::forward<Fill>(fill));
    }
    auto& kept = keep(*found);
    std::forward<Fill>(fill)(std::as_const(kept.inputs));
    if (!kept.step && found->eager_runs < options_.eager_first) {
      ++found->eager_runs;
      ++counts_.eager_first;
      return step_(kept.inputs);
    }
    if (found->stays_eager) {
      ++counts_.not_captured;
      return step_(kept.inputs);
    }
    if (!kept.step) {
      try {
        kept.step = std::make_unique<CapturedStep<R>>(
            device_, [&] { kept.result.emplace(step_(kept.inputs)); });
      } catch (std::exception const& error) {
        return run_not_captured(*found, error);
      }
      ++counts_.captures;
      log("captured for up to ", found->count, ", when a batch of ", count, " came");
    }
    kept.step->replay();
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
    std::uint64_t last_used = 0;
  };
  struct Capacity {
    std::int64_t count;
    std::int64_t eager_runs;
    std::unique_ptr<Kept> kept;
    bool stays_eager = false;
  };

  Kept& keep(Capacity& capacity) {
    if (capacity.kept == nullptr) {
      auto made = std::make_unique<Kept>(make_(capacity.count));
      make_room();
      capacity.kept = std::move(made);
    }
    capacity.kept->last_used = ++uses_;
    return *capacity.kept;
  }
  void make_room() {
    auto const is_kept = [](Capacity const& c) { return c.kept != nullptr; };
    if (static_cast<std::size_t>(std::ranges::count_if(capacities_, is_kept)) <
        options_.most_kept) {
      return;
    }
    Capacity* oldest = nullptr;
    for (auto& capacity : capacities_) {
      if (is_kept(capacity) &&
          (oldest == nullptr || capacity.kept->last_used < oldest->kept->last_used)) {
        oldest = &capacity;
      }
    }
    oldest->kept = nullptr;
    ++counts_.evictions;
    log("the step for up to ",
        oldest->count,
        " goes, the least recently used of ",
        options_.most_kept);
  }

  /// Throws what the step throws: then it was no matter of the capture.
  Result run_not_captured(Capacity& capacity, std::exception const& error) {
    capacity.kept->result.reset();
    auto result = step_(capacity.kept->inputs);
    capacity.stays_eager = true;
    ++counts_.not_captured;
    log("batches of up to ", capacity.count, " run eagerly from here on, since ", error.what());
    return result;
  }
  template <class Fill>
  Result run_too_large(std::int64_t count, Fill&& fill) {
    auto const batches = ++counts_.too_large;
    if ((batches & (batches - 1)) == 0) {
      log("a batch of ",
          count,
          " is above the largest capacity, ",
          capacities_.empty() ? 0 : capacities_.back().count,
          ", and runs eagerly, the ",
          batches,
          ". to do so");
    }
    Inputs const inputs = make_(count);
    std::forward<Fill>(fill)(inputs);
    return step_(inputs);
  }

  template <class... Words>
  void log(Words const&... words) const {
    if (options_.log) {
      options_.log(text("msstream: captured steps: ", words...));
    }
  }

  Device<R> device_;
  Make make_;
  Step step_;
  CapturedStepsOptions options_;
  std::vector<Capacity> capacities_;
  CapturedStepsCounts counts_;
  std::uint64_t uses_ = 0;
};

template <CapturingRuntime R, class Make, class Step>
CapturedSteps(Device<R>, Make, Step, CapturedStepsOptions)
    -> CapturedSteps<R,
                     std::invoke_result_t<Make, std::int64_t>,
                     std::invoke_result_t<Step, std::invoke_result_t<Make, std::int64_t> const&>>;

}  // namespace msstream
