// SPDX-License-Identifier: Apache-2.0
#include "base/name_pattern.hpp"
#include "comm/links/link_time.hpp"
#include "simulated_step.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/step/ranks_model.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>

namespace msstream {

namespace {

using comm::CollectiveKind;

/// Returns whether what a collective carries grows with the rows of its ranks.
bool carries_samples(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all:
    case CollectiveKind::all_to_all_counted:
    case CollectiveKind::send:
    case CollectiveKind::receive:
      return true;
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::broadcast:
    case CollectiveKind::barrier:
      break;
  }
  return false;
}

void check(StepTrace const& trace, comm::Links const& links, RanksModel const& model) {
  auto const is_time = [](double ns) { return ns >= 0 && std::isfinite(ns); };
  comm::require_links(links);
  require(model.ranks >= 1, "predict: {} ranks; expected 1 or more", model.ranks);
  require(model.rows > 0 && std::isfinite(model.rows),
          "predict: rows of {} times those of the trace; expected more than 0",
          model.rows);
  require(is_time(model.fixed_ns), "predict: fixed_ns of {}; expected 0 or more", model.fixed_ns);
  require(is_time(model.skew_ns), "predict: skew_ns of {}; expected 0 or more", model.skew_ns);
  for (std::size_t i = 0; i < model.fixed.size(); ++i) {
    require(std::ranges::any_of(trace.operations(),
                                [&](auto const& operation) {
                                  return detail::matches_pattern(model.fixed[i], operation.name);
                                }),
            "predict: fixed[{}], '{}', matches none of the {} operations of the trace; expected "
            "names of operations",
            i,
            model.fixed[i],
            trace.operations().size());
  }
  bool any = false;
  std::optional<int> ranks;
  for (std::size_t i = 0; i < trace.operations().size(); ++i) {
    auto const& operation = trace.operations()[i];
    any = any || operation.collective;
    if (operation.collective) {
      ranks = ranks.value_or(operation.collective->ranks);
      require(
          *ranks == operation.collective->ranks,
          "predict: collectives of {} and of {} ranks in one trace; expected those of all ranks "
          "alone, without groups",
          *ranks,
          operation.collective->ranks);
    }
    std::string_view const name = operation.name;
    bool const is_collective =
        comm::collective_kind_named(name.substr(name.rfind('/') + 1)).has_value() &&
        !stream_of_communicator(trace, i).empty();
    require(operation.collective || !is_collective,
            "predict: operations[{}], '{}' of the stream '{}', has no field 'collective' with its "
            "bytes; record the step again",
            i,
            operation.name,
            trace.streams()[operation.stream].name);
  }
  require(any || model.ranks == 1,
          "predict: {} ranks, and a trace of {} operations without a collective; record a step "
          "with a communicator",
          model.ranks,
          trace.operations().size());
}

/// Returns the costs of operations on ranks with `model.rows` times the rows, without the time of
/// collectives.
StepCosts computing_costs(StepTrace const& trace, RanksModel const& model) {
  auto costs = traced_costs(trace, model.step);
  for (std::size_t i = 0; i < costs.size(); ++i) {
    auto const& operation = trace.operations()[i];
    if (operation.collective) {
      costs[i].device_ns = 0;
      costs[i].link_ns = 0;
      costs[i].sms = 0;
      continue;
    }
    bool const stays = std::any_of(model.fixed.begin(), model.fixed.end(), [&](auto const& name) {
      return detail::matches_pattern(name, operation.name);
    });
    if (!stays) {
      auto& ns = costs[i].device_ns;
      double const fixed = std::min(ns, model.fixed_ns);
      ns = fixed + (ns - fixed) * model.rows;
    }
  }
  return costs;
}

}  // namespace

RanksPrediction predict(StepTrace const& trace, comm::Links const& links, RanksModel const& model) {
  check(trace, links, model);
  auto costs = computing_costs(trace, model);
  auto const groups = recorded_groups(trace);
  RanksPrediction prediction;
  prediction.compute_ns = simulated_ns(trace, groups, model.step, costs);
  if (model.ranks == 1) {
    prediction.step_ns = prediction.compute_ns;
    return prediction;
  }
  for (std::size_t i = 0; i < costs.size(); ++i) {
    if (auto const& collective = trace.operations()[i].collective) {
      double const bytes = static_cast<double>(collective->bytes) *
                           (carries_samples(collective->kind) ? model.rows : 1);
      auto const time = comm::detail::collective_time(links, collective->kind, bytes, model.ranks);
      costs[i].device_ns = time.latency_ns;
      costs[i].link_ns = time.link_ns;
      costs[i].sms = links.multiprocessors;
      prediction.collectives_ns += time.ns();
    }
  }
  // Ranks that begin earlier wait for the last one, which waits for none of them.
  prediction.step_ns = simulated_ns(trace, groups, model.step, costs) + model.skew_ns;
  return prediction;
}

}  // namespace msstream
