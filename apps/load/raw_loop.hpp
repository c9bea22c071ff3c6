// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "load/serve_options.hpp"
#include "load/served_model.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/serve/detail/branches.hpp>
#include <msstream/serve/detail/staging.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::load {

/// A serving loop as one would write it by hand, without a pool, a queue, futures or a tracker.
/// Each native stream has a few places, and each place has the captured graph of a query. The
/// graphs of a stream share its memory, and nothing but the loop orders them. Each of a few threads
/// copies queries to the places of its own streams, launches the graphs, and polls whether the
/// oldest launch of a stream is complete.
template <CapturingRuntime R>
class RawLoop {
 public:
  RawLoop(Workload<R> const& workload, ServeSetting const& setting, int threads)
      : workload_(workload),
        device_(device_options<R>(setting)),
        runtime_(device_.runtime()),
        model_(workload.build(device_, 0)),
        layout_(std::make_shared<serve::InputLayout const>(workload.inputs)),
        bucket_(setting.run_in(workload.query_rows).front()),
        streams_(device_, options_of(workload, fitted(setting, device_)), setting.replicas),
        workers_(static_cast<std::size_t>(std::min(threads, setting.replicas))) {
    for (int i = 0; i < setting.replicas; ++i) {
      auto const branches = streams_.of(i);
      auto& lanes = workers_[static_cast<std::size_t>(i) % workers_.size()].lanes;
      auto& lane = lanes.emplace_back(Lane{branches.front().compute().native()});
      StepMemory<R> const memory(device_, branches.front());
      for (int j = 0; j < setting.depth; ++j) {
        lane.places.push_back(std::make_unique<Place>(*this, branches, memory));
      }
    }
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      constexpr std::size_t kApart = 37;
      workers_[i].next = kApart * i;
    }
  }
  RawLoop(RawLoop const&) = delete;
  RawLoop& operator=(RawLoop const&) = delete;
  /// Blocks until no launch is in flight, even after a failure.
  ~RawLoop() {
    for (auto const& worker : workers_) {
      for (auto const& lane : worker.lanes) {
        try {
          runtime_.synchronize_stream(lane.stream);
        } catch (...) {  // a failed stream counts as complete
          continue;
        }
      }
    }
  }

  [[nodiscard]] int threads() const noexcept { return static_cast<int>(workers_.size()); }
  /// Runs the loop, and returns its queries per second. The first `warmup` seconds do not count.
  /// Continues beyond `seconds` until each thread has an answer. May be called once. Throws
  /// std::runtime_error if a query has expected answers and one of the last launches gave another
  /// answer.
  [[nodiscard]] double run(double warmup, double seconds) {
    auto const from = after(Clock::now(), warmup);
    auto const until = after(from, seconds);
    std::vector<std::future<double>> rates;
    for (auto& worker : workers_) {
      rates.push_back(std::async(
          std::launch::async, [this, &worker, from, until] { return work(worker, from, until); }));
    }
    double rate = 0;
    for (auto& of_worker : rates) {
      rate += of_worker.get();
    }
    check_last();
    return rate;
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Place {
    Place(RawLoop const& loop, serve::Branches<R> const& branches, StepMemory<R> const& memory)
        : runtime(loop.runtime_),
          staging(loop.device_, loop.layout_, loop.bucket_, loop.workload_.outputs_per_row) {
      StreamScope<R> const scope(branches.front());
      auto const issue = [&] {
        bool has_issued = false;
        return staging.issue(
            loop.bucket_,
            [&](auto const& inputs) { return (*loop.model_)(inputs); },
            has_issued,
            branches);
      };
      loop.device_.synchronize(issue());  // warms up: runs the setup of first use
      captured.emplace(loop.device_, issue, memory);
      event = runtime.create_event(EventTiming::untimed);
    }
    Place(Place const&) = delete;
    Place& operator=(Place const&) = delete;
    ~Place() { runtime.destroy_event(event); }

    R& runtime;
    serve::Staging<R> staging;
    std::optional<CapturedStep<R>> captured;
    typename R::native_event event = {};
    LoadQuery const* asked = nullptr;  ///< the query of the last launch
    std::vector<float> answer;
  };
  struct Lane {
    typename R::native_stream stream;
    std::vector<std::unique_ptr<Place>> places = {};
    std::size_t in_flight = 0;
    std::size_t oldest = 0;  ///< index of the oldest place in flight
  };
  struct Worker {
    std::vector<Lane> lanes;
    std::size_t next = 0;  ///< number of the next query
  };

  [[nodiscard]] static serve::InferencePoolOptions options_of(Workload<R> const& workload,
                                                              ServeSetting const& setting) {
    return setting.pool_options(workload.inputs, workload.outputs_per_row, workload.query_rows);
  }

  static Clock::time_point after(Clock::time_point from, double seconds) {
    return from +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  /// Returns the answers per second from `from` on, until `until` or the first answer after it.
  double work(Worker& worker, Clock::time_point from, Clock::time_point until) const {
    std::int64_t answered = 0;
    auto now = Clock::now();
    while (now < until || answered == 0) {
      std::int64_t in_round = 0;
      for (auto& lane : worker.lanes) {
        in_round += turn(lane, worker.next);
      }
      now = Clock::now();
      answered += now >= from ? in_round : 0;
      if (in_round == 0) {
        std::this_thread::yield();  // lets other threads run, as the pool's polling thread does
      }
    }
    return static_cast<double>(answered) / std::chrono::duration<double>(now - from).count();
  }
  /// Launches the next query on a stream. If all places of the stream are in flight, first takes
  /// the oldest answer, or returns if it is not complete. Returns the number of answers taken, 0 or
  /// 1.
  int turn(Lane& lane, std::size_t& next) const {
    bool const is_full = lane.in_flight == lane.places.size();
    auto& place = *lane.places[is_full ? lane.oldest : lane.in_flight++];
    if (is_full) {
      if (!runtime_.query(place.event)) {
        return 0;
      }
      take_answer(place);
      lane.oldest = (lane.oldest + 1) % lane.places.size();
    }
    auto const& asked = workload_.queries[next++ % workload_.queries.size()];
    place.asked = &asked;
    layout_->pack_alone(asked.query, place.staging.values(), bucket_);
    runtime_.launch_graph(place.captured->native(), lane.stream);
    runtime_.record(place.event, lane.stream);
    return is_full ? 1 : 0;
  }
  void check_last() const {
    for (auto const& worker : workers_) {
      for (auto const& lane : worker.lanes) {
        runtime_.synchronize_stream(lane.stream);
        for (std::size_t i = 0; i < lane.in_flight; ++i) {
          auto& place = *lane.places[i];
          take_answer(place);
          if (!place.asked->expected.empty() && !place.asked->is_answer(1, place.answer)) {
            throw std::runtime_error("raw loop: an answer is not what the model says to the query");
          }
        }
      }
    }
  }
  void take_answer(Place& place) const {
    auto const answers = place.staging.answers();
    auto const count = workload_.query_rows * workload_.outputs_per_row;
    place.answer.assign(answers.begin(), answers.begin() + count);
  }

  Workload<R> const& workload_;
  Device<R> device_;
  R& runtime_;
  std::shared_ptr<ServedModel<R> const> model_;
  std::shared_ptr<serve::InputLayout const> layout_;
  std::int64_t bucket_;
  serve::BranchStreams<R> streams_;
  std::vector<Worker> workers_;
};

}  // namespace msstream::load
