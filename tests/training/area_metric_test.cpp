// SPDX-License-Identifier: Apache-2.0
#include "training/area_metric.hpp"

#include <msstream/msstream.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace msstream::training {
namespace {

TEST(AreaMetric, is_exact_of_as_many_examples_as_may_be_kept_and_in_buckets_of_more) {
  Device<Host> const device;
  std::vector<float> const scores = {0.1F, 2.0F, -1.0F, 0.5F, -0.5F};
  std::vector<float> const labels = {0, 1, 0, 1, 1};
  auto const logits = to_device(device, scores, {5});
  auto const clicked = to_device(device, labels, {5});
  auto const area_of = [&](std::int64_t most_exact) {
    auto const metric = area_metric(device, 5, false, most_exact);
    metric.update(logits, clicked);
    return std::pair(metric.name(), metric.value());
  };
  EXPECT_EQ(area_of(5), std::pair(std::string("auc"), std::optional(5.0 / 6.0)));
  EXPECT_EQ(area_of(4), std::pair(std::string("bucketed_auc"), std::optional(5.0 / 6.0)));
}

}  // namespace
}  // namespace msstream::training
