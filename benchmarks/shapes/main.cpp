// SPDX-License-Identifier: Apache-2.0
#include "bare.hpp"
#include "cli/outputs.hpp"
#include "operations.hpp"
#include "summary.hpp"
#include "sweep_options.hpp"

#include <fmt/core.h>

#include <chrono>
#include <stdexcept>
#include <vector>

namespace benchmarks::shapes {
namespace {

Prepared prepare(Workplace& workplace, Case const& what) {
  switch (family_of(what.operation)) {
    case Family::segment:
      return prepare_segments(workplace, what);
    case Family::gradient:
      return prepare_gradient(workplace, what);
    case Family::update:
      return prepare_update(workplace, what);
    case Family::unique:
      return prepare_unique(workplace, what);
  }
  throw std::invalid_argument("shapes_sweep: an unknown family of operations");
}

Measured measure(Workplace& workplace, Case const& what) {
  auto const prepared = prepare(workplace, what);
  auto const us_of = [&](std::function<void()> const& operation) {
    return workplace.bench.cold_ns(operation) * 1e-3;
  };
  return {what,
          us_of(prepared.ours),
          prepared.bytes,
          prepared.cub != nullptr ? us_of(prepared.cub) : 0.0};
}

void run(cli::Arguments const& arguments) {
  auto const options = parse_options(arguments);
  if (ms::Cuda::device_count() == 0) {
    throw std::runtime_error("no GPU: " + ms::Cuda::why_no_device());
  }
  using Clock = std::chrono::steady_clock;
  auto const begin = Clock::now();
  auto const seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  Workplace workplace;
  auto const copy_gbps = workplace.bench.copy_gbps();
  auto const cases = list_cases(options.quick, options.only);
  cli::print(fmt::format("{}; a device copy moves {:.0f} GB/s; {} shapes\n{}",
                         Bare<ms::Cuda>::version(),
                         copy_gbps,
                         cases.size(),
                         heading()));
  std::vector<Measured> all;
  for (auto const& what : cases) {
    if (seconds() > options.limit_s) {
      break;
    }
    all.push_back(measure(workplace, what));
    cli::print(line_of(all.back(), copy_gbps));
  }
  cli::print(summary_of(all, copy_gbps));
  if (all.size() < cases.size()) {
    cli::print(fmt::format("{} of {} shapes left out after {:.0f} s; see --limit-s and --only\n",
                           cases.size() - all.size(),
                           cases.size(),
                           options.limit_s));
  }
  cli::print(fmt::format("{:.0f} s\n", seconds()));
  cli::write_output("--csv", options.csv, csv_of(all, copy_gbps));
}

}  // namespace
}  // namespace benchmarks::shapes

/// Measures operations on segments, rows and ids at many shapes on a GPU; docs/benchmarks.md
/// describes what it prints.
int main(int argc, char** argv) {
  return msstream::cli::run_program(argc, argv, benchmarks::shapes::run);
}
