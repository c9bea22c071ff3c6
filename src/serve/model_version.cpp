// SPDX-License-Identifier: Apache-2.0
#include "serve/model_version.hpp"

#include <source_location>

namespace msstream::serve {

void ModelVersion::capture(detail::AnyDevice const& device,
                           Place const& place,
                           detail::AnyStaging const& staging,
                           detail::AnyBranches const& branches,
                           std::shared_ptr<detail::CaptureMemory> const& memory) {
  bool has_issued = false;
  step(place) = std::make_unique<detail::AnyCapturedStep>(
      device, memory, [&] { issue(place, staging, branches, has_issued); });
}

order::Position ModelVersion::launch(Place const& place,
                                     detail::AnyStaging const& staging,
                                     detail::AnyBranches const& branches,
                                     bool& has_issued) {
  if (auto const& captured = step(place)) {
    return captured->replay(std::source_location::current());
  }
  return issue(place, staging, branches, has_issued);
}

order::Position ModelVersion::issue(Place const& place,
                                    detail::AnyStaging const& staging,
                                    detail::AnyBranches const& branches,
                                    bool& has_issued) const {
  return staging.issue(buckets_[place.bucket], forwards_[place.replica], has_issued, branches);
}

}  // namespace msstream::serve
