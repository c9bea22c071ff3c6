// SPDX-License-Identifier: Apache-2.0
#include "makespan.hpp"

#include "team.hpp"

#include <algorithm>
#include <atomic>
#include <map>

namespace benchmarks::workloads {

namespace {

using Sizes = std::vector<std::vector<std::size_t>>;  ///< of blocks in bytes, [thread][iteration]

Sizes draw_sizes(MakespanPlan const& plan) {
  Sizes sizes(static_cast<std::size_t>(plan.threads));
  for (std::size_t thread = 0; thread < sizes.size(); ++thread) {
    std::mt19937_64 random(plan.seed + thread);
    for (int i = 0; i < plan.iterations; ++i) {
      sizes[thread].push_back(plan.sizes.draw(random));
    }
  }
  return sizes;
}

/// Runs the planned work of all threads on one allocator.
class Runner {
 public:
  Runner(Entrant const& entrant, MakespanPlan const& plan, Sizes const& sizes, Team& team)
      : sizes_(sizes), team_(team), contender_(entrant.enter(task(plan))) {}

  /// Runs `iterations` iterations on every thread, and returns the duration in milliseconds.
  double run(int iterations) {
    using Clock = std::chrono::steady_clock;
    auto const begin = Clock::now();
    iterations_ += iterations * static_cast<double>(sizes_.size());
    team_.run([&](int thread) { work(thread, iterations); });
    contender_->synchronize();
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  }
  [[nodiscard]] Account account() const { return contender_->account(); }
  [[nodiscard]] double iterations() const { return iterations_; }
  [[nodiscard]] std::uint64_t refused() const { return refused_; }

 private:
  static Task task(MakespanPlan const& plan) {
    return {.streams = plan.threads,
            .blocks = static_cast<std::uint32_t>(plan.threads),
            .limit_bytes = plan.limit_bytes,
            .own_buffer_bytes = plan.sizes.most,
            .busy = plan.busy / 2};
  }
  void work(int thread, int iterations) {
    for (int i = 0; i < iterations; ++i) {
      auto const bytes = sizes_[static_cast<std::size_t>(thread)][static_cast<std::size_t>(i)];
      BlockUse const use{static_cast<std::uint32_t>(thread), bytes, thread, thread};
      if (contender_->allocate_and_write(use)) {
        contender_->check_and_free(use);
      } else {
        ++refused_;
      }
    }
  }

  Sizes const& sizes_;
  Team& team_;
  std::unique_ptr<Contender> contender_;
  double iterations_ = 0;
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace

std::vector<Makespan> measure_makespans(std::vector<Entrant> const& entrants,
                                        MakespanPlan const& plan) {
  auto const sizes = draw_sizes(plan);
  Team team(plan.threads);
  std::vector<Makespan> spans;
  std::vector<std::unique_ptr<Runner>> runners;
  std::vector<std::string> beside;
  for (auto const& entrant : entrants) {
    if (plan.limit_bytes == 0 || entrant.takes_limit || entrant.preallocated.empty()) {
      runners.push_back(std::make_unique<Runner>(entrant, plan, sizes, team));
      runners.back()->run(std::max(1, plan.iterations / 4));
      spans.emplace_back().entrant = entrant.name;
      beside.push_back(entrant.preallocated);
    }
  }
  for (int repeat = 0; repeat < plan.repeats; ++repeat) {
    std::map<std::string, double> ms;
    for (std::size_t i = 0; i < spans.size(); ++i) {
      spans[i].ms.push_back(runners[i]->run(plan.iterations));
      ms[spans[i].entrant] = spans[i].ms.back();
    }
    for (std::size_t i = 0; i < spans.size(); ++i) {
      if (!beside[i].empty()) {
        spans[i].ratio.push_back(spans[i].ms.back() / ms.at(beside[i]));
      }
    }
  }
  for (std::size_t i = 0; i < spans.size(); ++i) {
    spans[i].account = runners[i]->account();
    spans[i].iterations = runners[i]->iterations();
    spans[i].refused = runners[i]->refused();
  }
  return spans;
}

}  // namespace benchmarks::workloads
