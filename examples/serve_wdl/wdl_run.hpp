// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "load/serve_run.hpp"
#include "sweep.hpp"
#include "wdl_branches.hpp"
#include "wdl_fused.hpp"
#include "wdl_queries.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/report/progress_line.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace serve_wdl {

/// The model that serve_wdl serves, and its queries. The weights stay in host memory, from which
/// they are copied to each device.
template <ms::Runtime R>
class WdlWorkload {
 public:
  using Model = typename ms::load::Workload<R>::Model;

  explicit WdlWorkload(WdlOptions const& options)
      : options_(options), queries_(options, weights(0)) {
    bool const is_fused = options.tables == TableForm::fused;
    workload_ = {.inputs = is_fused ? WdlFused<R>::inputs(weights(0), options.hotness)
                                    : WdlBranches<R>::inputs(weights(0), options.hotness),
                 .outputs_per_row = 1,
                 .query_rows = options.batch,
                 .build = [this](ms::Device<R> const& device, int variant) {
                   return build(device, variant);
                 }};
    for (auto const& query : queries_.all()) {
      workload_.queries.push_back({.query = query});
    }
    ms::load::run_alone(workload_, options);
  }
  WdlWorkload(WdlWorkload const&) = delete;
  WdlWorkload& operator=(WdlWorkload const&) = delete;

  [[nodiscard]] ms::load::Workload<R> const& operator*() const noexcept { return workload_; }

 private:
  WdlWeights const& weights(int variant) {
    while (static_cast<int>(weights_.size()) <= variant) {
      weights_.push_back(make_weights(options_, static_cast<int>(weights_.size())));
    }
    return weights_[static_cast<std::size_t>(variant)];
  }
  Model build(ms::Device<R> const& device, int variant) {
    auto const& from = weights(variant);
    if (options_.tables == TableForm::fused) {
      return std::make_shared<WdlFused<R> const>(device, from, variant);
    }
    return std::make_shared<WdlBranches<R> const>(device, from, variant);
  }

  WdlOptions const& options_;
  std::deque<WdlWeights> weights_;
  WdlQueries queries_;
  ms::load::Workload<R> workload_;
};

template <ms::Runtime R>
std::vector<SweepPoint> sweep(ms::load::Workload<R> const& workload, WdlOptions const& options) {
  auto const style = ms::report::ProgressLine::Style::of_stderr(options.quiet);
  std::vector<SweepPoint> points;
  for (auto const& [name, setting] : sweep_settings(options)) {
    for (auto const replicas : options.sweep_replicas) {
      auto on = setting;
      on.replicas = replicas;
      auto const plan = options.plan(on);
      auto const title = fmt::format("{} on {}", name, replicas);
      points.push_back({name,
                        replicas,
                        plan.clients,
                        ms::load::try_serving(workload, on, options, plan, style, title)});
    }
  }
  return points;
}

template <ms::Runtime R>
nlohmann::ordered_json serve_wdl_on(WdlOptions const& options) {
  WdlWorkload<R> const workload(options);
  nlohmann::ordered_json report = {{"options", describe(options)}};
  if (options.sweep) {
    report["sweep"] = report_of_sweep(sweep(*workload, options), options.batch);
  } else {
    report.update(ms::load::serve_workload(*workload, options, options.plan()));
  }
  return report;
}

}  // namespace serve_wdl
