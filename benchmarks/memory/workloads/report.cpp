// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include "table.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace benchmarks::workloads {

namespace {

bool is_ours(std::string const& entrant) {
  return entrant.starts_with("msstream");
}

using Json = nlohmann::ordered_json;
using Number = std::optional<double>;

constexpr char const* kTraceKey =
    "B. reserved: the most that was, over the most that was live, as asked for. limit: the "
    "smallest\n"
    "   hard limit with which the trace completes, over the same.\n"
    "   Then calls of the runtime, per 1,000 operations, that the allocator makes necessary: "
    "those\n"
    "   during an allocation, a free, and the first write of a block, which follows the former "
    "uses\n"
    "   of its memory and nothing else. Memory: mapped, moved, allocated, given back.\n"
    "   By the program: during the check, which for 30% of the blocks follows the write on "
    "another\n"
    "   stream. 'own buffers' is the same program without an allocator: what the sum of both\n"
    "   exceeds it by is what reuse costs, counted in another way.\n"
    "   ns: of the host an operation, in allocations and frees alone.\n"
    "   Empty: cannot be seen from outside, or there is none.\n";

constexpr char const* kMakespanKey =
    "C. ms: from the start of all threads until the device is done, the median. ratio: to the "
    "same\n"
    "   program with own buffers in the same repeat, median, least, most. ideal: to the work "
    "alone.\n"
    "   Then calls, per 1,000 iterations, that the allocator makes necessary. ns: of the host an\n"
    "   iteration, in allocation and free alone. refused: allocations that found no memory.\n";

double mebibytes(std::size_t bytes) {
  return static_cast<double>(bytes) / (1 << 20U);
}

struct Spread {
  double least;
  double median;
  double most;
};

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  auto const middle = values.size() / 2;
  double const median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {values.front(), median, values.back()};
}

Json json_of(std::vector<double> const& values) {
  auto const [least, median, most] = spread_of(values);
  return {{"median", median}, {"least", least}, {"most", most}, {"all", values}};
}

/// The number of runtime calls of each kind per 1,000 operations or iterations.
struct Rates {
  Number records;
  Number waits;
  Number queries;
  Number synchronizations;
  Number memory;

  Rates() = default;
  Rates(std::optional<Calls> const& calls, double of) {
    if (calls) {
      auto const rate = [of](std::uint64_t count) {
        return static_cast<double>(count) * 1000 / of;
      };
      records = rate(calls->records);
      waits = rate(calls->waits);
      queries = rate(calls->queries);
      synchronizations = rate(calls->synchronizations);
      memory = rate(calls->memory);
    }
  }
  [[nodiscard]] Json json() const {
    return !records ? Json()
                    : Json{{"event_records", *records},
                           {"stream_waits", *waits},
                           {"event_queries", *queries},
                           {"host_synchronizations", *synchronizations},
                           {"memory_calls", *memory}};
  }
};

Json json_of(Number number) {
  return number ? Json(*number) : Json();
}

}  // namespace

Report::Report(Arena const& arena, std::string const& commit, bool quick) {
  fmt::print("{}: {}{}{}{}\n",
             arena.runtime,
             arena.device,
             arena.version.empty() ? "" : ", ",
             arena.version,
             quick ? "; --quick: less work than what docs/benchmarks.md shows" : "");
  json_ = {{"runtime", arena.runtime},
           {"device", arena.device},
           {"version", arena.version},
           {"commit", commit},
           {"quick", quick},
           {"traces", Json::array()},
           {"makespans", Json::array()}};
}

void Report::explain_trace() {
  fmt::print("\n{}", kTraceKey);
}

void Report::add_trace(TraceShape const& shape,
                       Trace const& trace,
                       double limit_factor,
                       std::vector<TraceResult> const& results) {
  fmt::print(
      "\n{} stream{}, seed {}: {} operations, at most {:.1f} MiB live, blocks up to {:.0f} MiB",
      shape.streams,
      shape.streams == 1 ? "" : "s",
      shape.seed,
      trace.operations.size(),
      mebibytes(trace.peak_live_bytes),
      mebibytes(shape.sizes.most));
  if (limit_factor != 0) {
    fmt::print(", under a limit of {:.2f} times that", limit_factor);
  }
  fmt::print("\n");
  Table const table({{"reserved", "/live", 3},
                     {"limit", "/live", 3},
                     {"records", "allocator", 1},
                     {"waits", "allocator", 1},
                     {"queries", "allocator", 1},
                     {"syncs", "allocator", 1},
                     {"memory", "allocator", 1},
                     {"records", "program", 1},
                     {"waits", "program", 1},
                     {"ns", "", 0},
                     {"wrong", "tags", 0}});

  Json rows = Json::array();
  for (auto const& [entrant, allocates, replay, smallest_limit] : results) {
    auto const& account = replay.account;
    our_wrong_tags_ += is_ours(entrant) ? account.wrong_tags : 0;
    Number reserved;
    Number ns;
    Rates allocator;
    if (allocates) {
      reserved = static_cast<double>(account.peak_reserved_bytes) /
                 static_cast<double>(trace.peak_live_bytes);
      ns = static_cast<double>(account.allocator_ns) / replay.operations;
      allocator = Rates(account.by_allocator, replay.operations);
    }
    Rates const program(account.by_program, replay.operations);
    table.add(entrant + (replay.completed ? "" : " (no memory)"),
              {reserved,
               smallest_limit,
               allocator.records,
               allocator.waits,
               allocator.queries,
               allocator.synchronizations,
               allocator.memory,
               program.records,
               program.waits,
               ns,
               static_cast<double>(account.wrong_tags)});
    rows.push_back({{"entrant", entrant},
                    {"completed", replay.completed},
                    {"wrong_tags", account.wrong_tags},
                    {"reserved_over_live", json_of(reserved)},
                    {"smallest_limit_over_live", json_of(smallest_limit)},
                    {"host_ns_per_operation", json_of(ns)},
                    {"by_allocator_per_1000", allocator.json()},
                    {"by_program_per_1000", program.json()}});
  }
  json_["traces"].push_back({{"streams", shape.streams},
                             {"seed", shape.seed},
                             {"operations", trace.operations.size()},
                             {"peak_live_bytes", trace.peak_live_bytes},
                             {"largest_block_bytes", shape.sizes.most},
                             {"limit_over_live", limit_factor},
                             {"entrants", std::move(rows)}});
}

void Report::explain_makespan() {
  fmt::print("\n{}", kMakespanKey);
}

void Report::add_makespans(MakespanPlan const& plan, std::vector<Makespan> const& makespans) {
  fmt::print("\n{} threads, {} iterations of {:.0f} us, {} repeats, ",
             plan.threads,
             plan.iterations,
             std::chrono::duration<double, std::micro>(plan.busy).count(),
             plan.repeats);
  if (plan.limit_bytes == 0) {
    fmt::print("no limit\n");
  } else {
    fmt::print("a limit of {:.0f} MiB\n", mebibytes(plan.limit_bytes));
  }
  Table const table({{"", "ms", 2},
                     {"ratio", "median", 4},
                     {"ratio", "least", 4},
                     {"ratio", "most", 4},
                     {"", "ideal", 3},
                     {"records", "allocator", 1},
                     {"waits", "allocator", 1},
                     {"syncs", "allocator", 1},
                     {"", "ns", 0},
                     {"", "refused", 0},
                     {"wrong", "tags", 0}});

  Json rows = Json::array();
  for (auto const& makespan : makespans) {
    our_wrong_tags_ += is_ours(makespan.entrant) ? makespan.account.wrong_tags : 0;
    auto const ms = spread_of(makespan.ms).median;
    bool const compared = !makespan.ratio.empty();
    auto const ratio = compared ? spread_of(makespan.ratio) : Spread{};
    auto const if_compared = [&](double value) { return compared ? Number(value) : std::nullopt; };
    Rates rates;
    Number ns;
    if (compared) {
      rates = Rates(makespan.account.by_allocator, makespan.iterations);
      ns = static_cast<double>(makespan.account.allocator_ns) / makespan.iterations;
    }
    table.add(makespan.entrant,
              {ms,
               if_compared(ratio.median),
               if_compared(ratio.least),
               if_compared(ratio.most),
               plan.ideal_ms() > 0 ? Number(ms / plan.ideal_ms()) : std::nullopt,
               rates.records,
               rates.waits,
               rates.synchronizations,
               ns,
               static_cast<double>(makespan.refused),
               static_cast<double>(makespan.account.wrong_tags)});
    rows.push_back({{"entrant", makespan.entrant},
                    {"ms", json_of(makespan.ms)},
                    {"ratio_to_own_buffers", compared ? json_of(makespan.ratio) : Json()},
                    {"by_allocator_per_1000", rates.json()},
                    {"host_ns_per_iteration", json_of(ns)},
                    {"refused", makespan.refused},
                    {"wrong_tags", makespan.account.wrong_tags}});
  }
  json_["makespans"].push_back({{"threads", plan.threads},
                                {"iterations", plan.iterations},
                                {"repeats", plan.repeats},
                                {"limit_bytes", plan.limit_bytes},
                                {"ideal_ms", plan.ideal_ms()},
                                {"entrants", std::move(rows)}});
}

}  // namespace benchmarks::workloads
