// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/ops_fixture.hpp"

#include <msstream/step/step_trace.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {

/// Makes step traces by hand. Each group has one stream for computing and copies.
class TraceMaker {
 public:
  static constexpr std::size_t kBytes = 64;

  void add(std::string name,
           int group,
           double duration_ns,
           std::vector<std::size_t> reads,
           std::vector<std::size_t> writes,
           StreamKind kind = StreamKind::compute,
           int sms = 0) {
    for (auto const& used : {reads, writes}) {
      for (auto const memory : used) {
        memories_ = std::max(memories_, memory + 1);
      }
    }
    groups_ = std::max(groups_, group + 1);
    operations_.push_back({.name = std::move(name),
                           .stream = static_cast<std::size_t>(group),
                           .kind = kind,
                           .reads = std::move(reads),
                           .writes = std::move(writes),
                           .end_ns = duration_ns,
                           .sms = sms});
  }
  /// Adds a collective, which writes the memory, on the stream of `group`.
  void add_collective(comm::CollectiveKind kind,
                      int group,
                      std::size_t bytes,
                      std::vector<std::size_t> writes,
                      std::string communicator = "world") {
    add(std::string(name_of(kind)), group, 1, {}, std::move(writes));
    operations_.back().collective = StepTrace::Collective{kind, bytes, std::move(communicator), 2};
  }
  /// Returns a trace in which the operations run one after the other without gaps.
  [[nodiscard]] StepTrace run() const {
    std::vector<double> begins;
    double now = 0;
    for (auto const& operation : operations_) {
      begins.push_back(now);
      now += operation.end_ns;
    }
    return run_at(begins);
  }
  [[nodiscard]] StepTrace run_at(std::vector<double> const& begins_ns,
                                 WaitCounts const& waits = {}) const {
    auto operations = operations_;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      operations[i].begin_ns = begins_ns[i];
      operations[i].end_ns += begins_ns[i];
    }
    std::vector<StepTrace::Stream> streams;
    for (int i = 0; i < groups_; ++i) {
      streams.push_back({fmt::format("group {}", i), i, true});
    }
    return {std::move(streams),
            std::vector<std::size_t>(memories_, kBytes),
            std::move(operations),
            waits};
  }
  [[nodiscard]] std::size_t count() const noexcept { return operations_.size(); }

 private:
  std::vector<StepTrace::Operation> operations_;
  std::size_t memories_ = 0;
  int groups_ = 0;
};

}  // namespace msstream::testing
