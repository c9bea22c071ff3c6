// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/require.hpp>
#include <msstream/step/step_trace.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace msstream {

namespace {

/// The latest time that a trace may contain: some thirty years, for which sums and differences are
/// exact enough.
constexpr double kLatestNs = 1e18;

}  // namespace

StepTrace::StepTrace(std::vector<StepTrace::Stream> streams,
                     std::vector<std::size_t> memory_bytes,
                     std::vector<StepTrace::Operation> operations,
                     WaitCounts const& waits)
    : streams_(std::move(streams)),
      memory_bytes_(std::move(memory_bytes)),
      operations_(std::move(operations)),
      waits_(waits) {
  check();
  find_dependencies();
}

void StepTrace::check() const {
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    auto const& operation = operations_[i];
    require(!operation.name.empty(), "operations[{}].name: expected a name, found none", i);
    require(operation.stream < streams_.size(),
            "operations[{}].stream: expected a number below {}, found {}",
            i,
            streams_.size(),
            operation.stream);
    auto const check_memory = [&](std::vector<std::size_t> const& used, char const* field) {
      for (std::size_t k = 0; k < used.size(); ++k) {
        require(used[k] < memory_bytes_.size(),
                "operations[{}].{}[{}]: expected a number below {}, found {}",
                i,
                field,
                k,
                memory_bytes_.size(),
                used[k]);
      }
    };
    check_memory(operation.reads, "reads");
    check_memory(operation.writes, "writes");
    require(std::abs(operation.begin_ns) <= kLatestNs,
            "operations[{}].begin_ns: expected a time of at most {}, found {}",
            i,
            kLatestNs,
            operation.begin_ns);
    require(operation.begin_ns <= operation.end_ns && operation.end_ns <= kLatestNs,
            "operations[{}].end_ns: expected a time from begin_ns on, {}, found {}",
            i,
            operation.begin_ns,
            operation.end_ns);
    require(operation.launch_ns >= 0 && operation.launch_ns <= kLatestNs,
            "operations[{}].launch_ns: expected a time from 0 to {}, found {}",
            i,
            kLatestNs,
            operation.launch_ns);
    require(operation.sms >= 0,
            "operations[{}].sms: expected 0 or more multiprocessors, found {}",
            i,
            operation.sms);
    if (operation.collective) {
      require(!operation.collective->communicator.empty(),
              "operations[{}].collective.communicator: expected a name, found none",
              i);
      require(operation.collective->ranks >= 1,
              "operations[{}].collective.ranks: expected 1 or more, found {}",
              i,
              operation.collective->ranks);
      require(operation.kind == StreamKind::compute,
              "operations[{}].kind: expected compute, as of every collective",
              i);
    }
  }
}

void StepTrace::find_dependencies() {
  struct Uses {
    std::optional<std::size_t> written_by;
    std::vector<std::size_t> read_by;  ///< the readers since the last write
  };
  std::vector<Uses> uses(memory_bytes_.size());
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    auto& operation = operations_[i];
    auto& after = operation.after;
    after.clear();
    auto const follow_write = [&](std::size_t memory) {
      if (uses[memory].written_by) {
        after.push_back(*uses[memory].written_by);
      }
    };
    for (auto const memory : operation.reads) {
      follow_write(memory);
    }
    for (auto const memory : operation.writes) {
      follow_write(memory);
      after.insert(after.end(), uses[memory].read_by.begin(), uses[memory].read_by.end());
    }
    for (auto const memory : operation.reads) {
      uses[memory].read_by.push_back(i);
    }
    for (auto const memory : operation.writes) {
      uses[memory] = {i, {}};
    }
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
  }
}

StepTrace StepTrace::with_issue_time(double ns) const {
  require(ns > 0 && ns <= kLatestNs,
          "StepTrace: an issue time of {} ns; expected more than 0 and at most {}",
          ns,
          kLatestNs);
  double sum = 0;
  for (auto const& operation : operations_) {
    sum += operation.launch_ns;
  }
  auto scaled = *this;
  for (auto& operation : scaled.operations_) {
    double const part =
        sum != 0 ? operation.launch_ns / sum : 1 / static_cast<double>(operations_.size());
    operation.launch_ns = ns * part;
  }
  return scaled;
}

int StepTrace::group_of(std::size_t operation) const {
  return streams_.at(operations_.at(operation).stream).group;
}

double StepTrace::step_ns() const noexcept {
  if (operations_.empty()) {
    return 0;
  }
  auto begin = operations_.front().begin_ns;
  auto end = operations_.front().end_ns;
  for (auto const& operation : operations_) {
    begin = std::min(begin, operation.begin_ns);
    end = std::max(end, operation.end_ns);
  }
  return end - begin;
}

double StepTrace::busy_ns() const noexcept {
  double busy = 0;
  for (auto const& operation : operations_) {
    busy += operation.duration_ns();
  }
  return busy;
}

std::vector<double> StepTrace::concurrency() const {
  std::vector<std::pair<double, int>> changes;
  for (auto const& operation : operations_) {
    changes.emplace_back(operation.begin_ns, 1);
    changes.emplace_back(operation.end_ns, -1);
  }
  std::sort(changes.begin(), changes.end());
  double const total = step_ns();
  std::vector<double> shares;
  int running = 0;
  for (std::size_t i = 0; total > 0 && i < changes.size(); ++i) {
    if (i > 0 && changes[i].first > changes[i - 1].first) {
      auto const place = static_cast<std::size_t>(running);
      shares.resize(std::max(shares.size(), place + 1), 0.0);
      shares[place] += (changes[i].first - changes[i - 1].first) / total;
    }
    running += changes[i].second;
  }
  return shares;
}

StepTrace::CriticalPath StepTrace::critical_path() const {
  constexpr auto kNone = static_cast<std::size_t>(-1);
  std::vector<double> length(operations_.size(), 0);
  std::vector<std::size_t> before(operations_.size(), kNone);
  std::size_t last = kNone;
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    for (auto const earlier : operations_[i].after) {
      if (before[i] == kNone || length[earlier] > length[before[i]]) {
        before[i] = earlier;
      }
    }
    length[i] = operations_[i].duration_ns() + (before[i] == kNone ? 0.0 : length[before[i]]);
    last = last == kNone || length[i] > length[last] ? i : last;
  }
  StepTrace::CriticalPath path;
  path.length_ns = last == kNone ? 0.0 : length[last];
  for (; last != kNone; last = before[last]) {
    path.operations.push_back(last);
  }
  std::reverse(path.operations.begin(), path.operations.end());
  return path;
}

}  // namespace msstream
