// SPDX-License-Identifier: Apache-2.0
// Stands for msstream::overlap in builds whose programs have no reports on overlap: cli refuses the
// option --overlap, so that nothing here is called.
#if !MSSTREAM_PROGRAMS_WITH_OVERLAP
#include <msstream/overlap/report.hpp>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <utility>

namespace msstream {
namespace detail {

class StepWatch::State {};

void StepWatch::check(int /*warm_up*/, int /*steps*/) {
  std::abort();
}
double StepWatch::steady_ns() noexcept {
  return 0;
}
StepWatch::StepWatch(AnyDevice const& /*device*/,
                     std::function<double()> /*now_ns*/,
                     Times /*times*/) {}
StepWatch::~StepWatch() = default;
void StepWatch::begin() {}
void StepWatch::begin_step() {}
std::shared_ptr<OverlapContents const> StepWatch::finish() {
  return nullptr;
}

}  // namespace detail

OverlapReport::OverlapReport(std::shared_ptr<detail::OverlapContents const> contents)
    : contents_(std::move(contents)) {}
void OverlapReport::write(std::filesystem::path const& /*path*/) const {}

}  // namespace msstream
#endif
