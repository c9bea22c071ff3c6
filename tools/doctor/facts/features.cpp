// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts/features.hpp"

#include <fmt/core.h>

#include <array>
#include <string_view>
#include <utility>

namespace msstream::doctor {
namespace {

/// A feature, and what is done where it is missing.
struct Feature {
  std::string_view id;
  std::string_view thing;
  Available FeatureFacts::*available;
  Level without;  ///< how bad it is to lack the feature
  std::string_view fallback;
};

constexpr std::array kFeatures{
    Feature{"concurrent-kernels",
            "kernels of several streams at once",
            &FeatureFacts::concurrent_kernels,
            Level::bad,
            "Streams do not overlap on this device."},
    Feature{"priorities",
            "stream priorities",
            &FeatureFacts::priorities,
            Level::note,
            "msstream creates streams of equal priority, whatever the options say."},
    Feature{"virtual-memory",
            "virtual memory management",
            &FeatureFacts::pages,
            Level::note,
            "msstream's allocator takes pieces by cudaMalloc, which it cannot join or give back in "
            "part, so that memory fragments more."},
    Feature{"memory-pools",
            "memory pools (cudaMallocAsync)",
            &FeatureFacts::memory_pools,
            Level::note,
            "msstream has an allocator of its own and does not need them."},
    Feature{"green-contexts",
            "parts of the multiprocessors (green contexts)",
            &FeatureFacts::green_contexts,
            Level::note,
            "All groups share all multiprocessors: sm_partitions must be 1 and spared_sms 0."},
    Feature{"green-streams",
            "streams of green contexts (cuGreenCtxStreamCreate)",
            &FeatureFacts::green_streams,
            Level::note,
            "sm_partitions must be 1. The call is in drivers that support CUDA 12.5."},
    Feature{"host-access",
            "kernels that access pinned memory",
            &FeatureFacts::host_access,
            Level::note,
            "Small copies in captured steps need a copy engine."},
    Feature{"graph-updates",
            "updates of graphs by kernels",
            &FeatureFacts::graph_updates,
            Level::note,
            "msstream does not need them: a replay reads tensors, into which inputs are copied."},
    Feature{"multicast",
            "multicast between GPUs (NVLink SHARP)",
            &FeatureFacts::multicast,
            Level::note,
            "NCCL sums in rings and trees, which takes longer for small tensors on many GPUs."},
    Feature{"fp8-products",
            "products of 8-bit floats",
            &FeatureFacts::fp8_products,
            Level::note,
            "Layers with fp8_products multiply the same numbers as float16, and take longer than "
            "layers of half precision."},
};

}  // namespace

Available green_contexts_of(bool driver_has_contexts,
                            bool driver_has_streams,
                            int most_sm_parts) noexcept {
  if (!driver_has_contexts || !driver_has_streams) {
    return Available::not_by_driver;
  }
  return most_sm_parts > 1 ? Available::yes : Available::not_by_device;
}

Lines feature_lines(FeatureFacts const& facts) {
  Lines lines;
  for (auto const& feature : kFeatures) {
    Line line{Section::features, std::string(feature.id), std::string(feature.thing)};
    line.device = facts.device;
    switch (facts.*feature.available) {
      case Available::yes:
        line.value = "yes";
        break;
      case Available::not_by_driver:
        line.value = "no: the driver lacks it";
        break;
      case Available::not_by_device:
        line.value = "no: the device lacks it";
        break;
    }
    if (facts.*feature.available != Available::yes) {
      line = judged(std::move(line), feature.without, std::string(feature.fallback));
    } else if (feature.id == "priorities") {
      line.value = fmt::format("yes, {} levels", facts.priority_levels);
      line.quantity = {static_cast<double>(facts.priority_levels), "levels"};
    } else if (feature.id == "green-contexts") {
      line.value = fmt::format("yes, at most {} parts", facts.most_sm_parts);
      line.quantity = {static_cast<double>(facts.most_sm_parts), "parts"};
    }
    lines.push_back(std::move(line));
  }
  Line engines{Section::features, "copy-engines", "copy engines"};
  engines.device = facts.device;
  engines = with_quantity(std::move(engines), {static_cast<double>(facts.copy_engines), ""});
  if (facts.copy_engines < 2) {
    engines = judged(std::move(engines),
                     facts.copy_engines == 0 ? Level::slow : Level::note,
                     facts.copy_engines == 0
                         ? "Copies and kernels run in turn. Load batches of a step in one copy."
                         : "Copies in both directions run in turn, beside kernels.");
  }
  lines.push_back(std::move(engines));
  return lines;
}

}  // namespace msstream::doctor
