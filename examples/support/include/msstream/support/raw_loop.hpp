// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/captured_step.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/support/serve_options.hpp>
#include <msstream/support/served_model.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace msstream::support {

/// What one would write by hand: the captured step of a query for each place of each group, and one
/// thread that copies a query to each place that is free, replays, and looks which replays are
/// over. No pool, no queue, no futures, no other thread.
template <CapturingRuntime R>
class RawLoop {
 public:
  RawLoop(Workload<R> const& workload, ServeSetting const& setting)
      : workload_(workload),
        device_(device_options<R>(setting)),
        model_(workload.build(device_, 0)),
        layout_(std::make_shared<serve::InputLayout const>(workload.inputs)),
        groups_(device_,
                {.groups = setting.replicas,
                 .merge_streams = setting.merge_streams,
                 .priority = setting.priority,
                 .sm_partitions = fitted(setting, device_).sm_partitions,
                 .launch_threads = LaunchThreads::none,
                 .launch_thread_count = 0,
                 .assignment = std::nullopt,
                 .propagate_groups = false}) {
    auto const buckets = setting.buckets_for(workload.query_rows);
    bucket_ = *std::ranges::lower_bound(buckets, workload.query_rows);
    for (int i = 0; i < setting.replicas; ++i) {
      for (int j = 0; j < setting.depth; ++j) {
        places_.push_back(std::make_unique<Place>(*this, groups_[i]));
      }
    }
  }

  /// Queries a second, after `warmup` seconds that do not count.
  [[nodiscard]] double run(double warmup, double seconds) {
    run_for(warmup);
    auto const begin = Clock::now();
    auto const answered = run_for(seconds);
    return static_cast<double>(answered) /
           std::chrono::duration<double>(Clock::now() - begin).count();
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Place {
    Place(RawLoop const& loop, StreamGroup<R>& its)
        : group(its),
          staging(loop.device_, loop.layout_, loop.bucket_, loop.workload_.outputs_per_row) {
      StreamScope<R> const scope(group);
      auto const forward = [&](auto const& inputs) { return (*loop.model_)(inputs); };
      bool has_issued = false;
      loop.device_.context()->tracker->synchronize(
          staging.issue(loop.bucket_, forward, has_issued));
      step.emplace(loop.device_, [&] { staging.issue(loop.bucket_, forward, has_issued); });
    }

    StreamGroup<R>& group;
    serve::Staging<R> staging;
    std::optional<CapturedStep<R>> step;
    std::optional<Event<R>> event;
    std::vector<float> answer;
  };

  /// How many were answered.
  std::int64_t run_for(double seconds) {
    auto const end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(seconds));
    std::int64_t answered = 0;
    while (Clock::now() < end) {
      for (auto const& place : places_) {
        if (!place->event || place->event->query()) {
          answered += take_answer(*place);
          ask(*place);
        }
      }
    }
    for (auto const& place : places_) {
      if (place->event) {
        place->event->synchronize();
        answered += take_answer(*place);
      }
    }
    return answered;
  }
  std::int64_t take_answer(Place& place) const {
    if (!place.event) {
      return 0;
    }
    place.event.reset();
    auto const answers = place.staging.answers();
    auto const count = workload_.query_rows * workload_.outputs_per_row;
    place.answer.assign(answers.begin(), answers.begin() + count);
    return 1;
  }
  void ask(Place& place) {
    auto const& asked = workload_.queries[next_++ % workload_.queries.size()];
    layout_->pack(asked.query, place.staging.values(), bucket_, 0);
    StreamScope<R> const scope(place.group);
    place.step->replay();
    place.event = place.group.compute().record();
  }

  Workload<R> const& workload_;
  Device<R> device_;
  std::shared_ptr<ServedModel<R> const> model_;
  std::shared_ptr<serve::InputLayout const> layout_;
  StreamPool<R> groups_;
  std::int64_t bucket_;
  std::vector<std::unique_ptr<Place>> places_;
  std::size_t next_ = 0;
};

}  // namespace msstream::support
