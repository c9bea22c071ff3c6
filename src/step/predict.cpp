// SPDX-License-Identifier: Apache-2.0
#include "launch_cost.hpp"
#include "runtime/sim/sim_load.hpp"
#include "simulated_step.hpp"
#include "stream/stream_context.hpp"
#include "stream/stream_group.hpp"

#include <msstream/runtime/detail/backend_of.hpp>
#include <msstream/runtime/sim.hpp>
#include <msstream/step/auto_assignment.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

namespace msstream {

namespace {

/// Estimates the number of multiprocessors that an operation fills, for a trace without that
/// number. The estimate is the lesser of two values: the number that the thread blocks of the
/// operation need, estimated from the bytes that it reads and writes, and the share of the device
/// that equals the operation's share of the device's throughput. The constants fit the step times
/// of three models on many stream groups of one H200.
int likely_sms(StepTrace const& trace, StepTrace::Operation const& operation, int sm_count) {
  constexpr double kWrittenBytes = 15'000;
  constexpr double kReadBytes = 300'000;
  constexpr double kBytesPerNs = 1'400;  ///< the throughput of a kernel that fills the device
  auto const bytes = [&](std::vector<std::size_t> const& used) {
    double sum = 0;
    for (auto const memory : used) {
      sum += static_cast<double>(trace.memory_bytes()[memory]);
    }
    return sum;
  };
  double const written = bytes(operation.writes);
  double const read = bytes(operation.reads);
  double const blocks = std::max(written / kWrittenBytes, read / kReadBytes);
  double const moved_ns = (written + read) / kBytesPerNs;
  double const throughput = sm_count * moved_ns / std::max(operation.duration_ns(), 1.0);
  return static_cast<int>(std::clamp(std::ceil(std::min(blocks, throughput)), 1.0, 1e6));
}

/// Returns the cost of an operation that runs alone on a device.
SimCost::Kernel cost_of(StepTrace const& trace, std::size_t i, StepModel const& model) {
  auto const& operation = trace.operations()[i];
  int const sms =
      operation.sms != 0 ? operation.sms : likely_sms(trace, operation, model.cost.sm_count);
  return {operation.duration_ns(),
          std::min(sms, model.cost.sm_count),
          launch_cost_ns(operation, model)};
}

CopyKind engine_of(StreamKind kind) {
  return kind == StreamKind::h2d ? CopyKind::h2d : CopyKind::d2h;
}

/// Predicts the time of a step outside graphs: simulates one thread that issues the step to the
/// stream groups of a simulated device.
double predict_eager(StepTrace const& trace,
                     StepGroups const& groups,
                     StepModel const& model,
                     StepCosts const& costs) {
  std::size_t current = 0;
  auto cost = model.cost;
  cost.kernel = [&](std::string_view, std::span<MemoryUse const>) { return costs[current]; };
  // Makes a copy of n bytes take n ns, so that the simulated copy of n bytes can represent a traced
  // copy of n ns.
  cost.copy_latency_ns = 0;
  cost.h2d_bytes_per_ns = 1;
  cost.d2h_bytes_per_ns = 1;
  auto const context = std::make_shared<detail::StreamContext>(
      detail::make_backend<Sim>({.schedule = sim::by_time(), .cost = cost, .runs_work = false}),
      std::make_shared<detail::DependencyTracker>(life_of<Sim>));
  std::map<std::pair<std::string, int>, std::shared_ptr<detail::StreamGroup>> made;
  auto const key_of = [&](std::size_t i) {
    auto const communicator = stream_of_communicator(trace, i);
    return std::pair(communicator, communicator.empty() ? groups[i] : -1);
  };
  for (std::size_t i = 0; i < groups.size(); ++i) {
    auto const key = key_of(i);
    auto& group = made[key];
    if (group == nullptr) {
      group = std::make_shared<detail::StreamGroup>(
          context,
          key.second,
          detail::StreamGroupOptions{.merge_streams = model.merge_streams || !key.first.empty()});
    }
  }
  std::vector<detail::AccessRecord> memory(trace.memory_bytes().size());
  auto& backend = *context->runtime;
  auto& runtime = detail::runtime_of<Sim>(backend);
  double const start_ns = runtime.host_time_ns();
  for (; current < groups.size(); ++current) {
    auto const& operation = trace.operations()[current];
    detail::AccessSet accesses;
    for (auto const used : operation.reads) {
      accesses.add(memory[used], AccessMode::read);
    }
    for (auto const used : operation.writes) {
      accesses.add(memory[used], AccessMode::write);
    }
    auto& group = *made[key_of(current)];
    if (operation.kind == StreamKind::compute) {
      group.submit("operation",
                   operation.kind,
                   accesses,
                   detail::WorkRef::of<Sim>([](HostStream stream) { stream.run([] {}); }));
    } else {
      auto const bytes = static_cast<std::size_t>(std::llround(costs[current].device_ns));
      group.submit("copy",
                   operation.kind,
                   accesses,
                   detail::WorkRef::native([&backend, bytes, engine = engine_of(operation.kind)](
                                               detail::NativeStream native) {
                     backend.copy(nullptr, nullptr, bytes, engine, native);
                   }));
    }
  }
  // Waits for each stream itself, because waiting for a group would record events, which cost host
  // time.
  for (auto const& [key, group] : made) {
    for (auto const kind : {StreamKind::compute, StreamKind::h2d, StreamKind::d2h}) {
      backend.synchronize_stream(group->stream(kind).native());
    }
  }
  return runtime.host_time_ns() - start_ns;
}

/// Simulates the replay of a step as a graph with one node per operation.
class GraphRun {
 public:
  GraphRun(StepTrace const& trace,
           std::vector<std::size_t> streams,
           StepModel const& model,
           StepCosts const& costs)
      : trace_(trace),
        costs_(costs),
        streams_(std::move(streams)),
        model_(model),
        load_(model.cost.sm_count),
        followers_(streams_.size()),
        missing_(streams_.size(), 0),
        ready_ns_(streams_.size(), 0),
        on_stream_(streams_.size(), 0) {
    std::vector<std::size_t> last(streams_.size(), kNone);
    std::size_t last_collective = kNone;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      auto& before = last[streams_[i]];
      if (before != kNone) {
        add_edge(before, i);
      }
      before = i;
      // In a captured step, the collectives of all communicators run in their order.
      if (trace.operations()[i].collective) {
        if (last_collective != kNone && streams_[last_collective] != streams_[i]) {
          add_edge(last_collective, i);
        }
        last_collective = i;
      }
      for (auto const earlier : trace.operations()[i].after) {
        if (streams_[earlier] != streams_[i]) {
          add_edge(earlier, i);
        }
      }
    }
  }

  [[nodiscard]] double makespan_ns() {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if (missing_[i] == 0) {
        waiting_.push({0.0, i});
      }
    }
    std::vector<sim::StreamNumber> done;
    double now = 0;
    while (true) {
      while (!waiting_.empty() && waiting_.top().first <= now) {
        start(waiting_.top().second);
        waiting_.pop();
      }
      double const done_in = load_.next_done_in_ns();
      double const ready_in =
          waiting_.empty() ? std::numeric_limits<double>::infinity() : waiting_.top().first - now;
      double const step = std::min(done_in, ready_in);
      if (step == std::numeric_limits<double>::infinity()) {
        return now;
      }
      done.clear();
      load_.pass(step, done);
      now = ready_in < done_in ? waiting_.top().first : now + step;
      for (auto const stream : done) {
        finish(on_stream_[stream], now);
      }
    }
  }

 private:
  static constexpr auto kNone = static_cast<std::size_t>(-1);
  using Ready = std::pair<double, std::size_t>;

  void add_edge(std::size_t before, std::size_t after) {
    followers_[before].push_back(after);
    ++missing_[after];
  }
  void start(std::size_t i) {
    auto const& operation = trace_.operations()[i];
    auto const stream = static_cast<sim::StreamNumber>(streams_[i]);
    on_stream_[stream] = i;
    auto const& cost = costs_[i];
    if (cost.link_ns) {
      load_.start_collective(stream, cost.device_ns, *cost.link_ns, cost.sms);
    } else if (operation.kind == StreamKind::compute) {
      load_.start_kernel(stream, cost.device_ns, cost.sms);
    } else {
      load_.start_copy(stream, engine_of(operation.kind), cost.device_ns);
    }
  }
  void finish(std::size_t i, double now) {
    for (auto const follower : followers_[i]) {
      double const gap =
          streams_[follower] == streams_[i] ? model_.in_stream_ns : model_.across_streams_ns;
      ready_ns_[follower] = std::max(ready_ns_[follower], now + gap);
      if (--missing_[follower] == 0) {
        waiting_.push({ready_ns_[follower], follower});
      }
    }
  }

  StepTrace const& trace_;
  StepCosts const& costs_;
  std::vector<std::size_t> streams_;
  StepModel const& model_;
  sim::DeviceLoad load_;
  std::vector<std::vector<std::size_t>> followers_;
  std::vector<std::size_t> missing_;  ///< for each operation, the predecessors still running
  std::vector<double> ready_ns_;
  std::vector<std::size_t> on_stream_;  ///< the operation that each stream is running
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> waiting_;
};

}  // namespace

StepCosts traced_costs(StepTrace const& trace, StepModel const& model) {
  StepCosts costs;
  for (std::size_t i = 0; i < trace.operations().size(); ++i) {
    costs.push_back(cost_of(trace, i, model));
  }
  return costs;
}

double simulated_ns(StepTrace const& trace,
                    StepGroups const& groups,
                    StepModel const& model,
                    StepCosts const& costs) {
  auto streams = streams_by(trace, groups, model.merge_streams);
  if (model.launch == StepModel::Launch::graph) {
    return GraphRun(trace, std::move(streams), model, costs).makespan_ns();
  }
  return predict_eager(trace, groups, model, costs);
}

double predict(StepTrace const& trace, StepGroups const& groups, StepModel const& model) {
  return simulated_ns(trace, groups, model, traced_costs(trace, model));
}

double predict(StepTrace const& trace, StreamAssignment const& assignment, StepModel const& model) {
  return predict(trace, groups_by(trace, assignment), model);
}

}  // namespace msstream
