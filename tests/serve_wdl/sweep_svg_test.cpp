// SPDX-License-Identifier: Apache-2.0
#include "sweep.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <regex>
#include <string>
#include <vector>

namespace serve_wdl {
namespace {

using Json = nlohmann::ordered_json;

Json point(std::string const& setting, int replicas, double queries_per_s, double p99_ms) {
  return {{"setting", setting},
          {"replicas", replicas},
          {"queries_per_s", queries_per_s},
          {"latency_ms", {{"p99", p99_ms}}}};
}

std::size_t count(std::string const& in, std::string const& what) {
  std::size_t found = 0;
  for (auto at = in.find(what); at != std::string::npos; at = in.find(what, at + 1)) {
    ++found;
  }
  return found;
}

/// Expects that every element of an SVG text is closed, in the order that nesting requires.
void expect_well_formed(std::string const& svg) {
  std::regex const tag("<(/?)([a-z]+)([^<>]*?)(/?)>");
  std::vector<std::string> open;
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), tag); at != std::sregex_iterator();
       ++at) {
    if ((*at)[1].length() != 0) {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), (*at)[2]);
      open.pop_back();
    } else if ((*at)[4].length() == 0) {
      open.push_back((*at)[2]);
    }
    EXPECT_EQ(count((*at)[3].str(), "\"") % 2, 0U);
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(count(svg, "nan") + count(svg, "inf"), 0U);
}

TEST(SweepSvg, has_a_line_a_setting_and_a_point_each_in_both_panels) {
  auto const points = Json::array({point("eager", 1, 1000, 4),
                                   point("eager", 4, 3000, 2),
                                   point("+ capture", 1, 2000, 3),
                                   point("+ capture", 4, 7900, 0.5)});
  auto const svg = sweep_svg(points);
  expect_well_formed(svg);
  EXPECT_EQ(count(svg, "class=\"setting\""), 2U * 2U);
  EXPECT_EQ(count(svg, "class=\"point\""), 2U * 4U);
  EXPECT_EQ(count(svg, "class=\"legend\""), 2U);
  EXPECT_THAT(svg, testing::HasSubstr("+ capture on 4: 7900.000"));
  EXPECT_THAT(svg, testing::HasSubstr(">8,000<")) << "the axis goes beyond the most";
  // The largest value of the series is drawn above the smallest.
  std::regex const height("cy=\"([0-9.]+)\"");
  std::vector<double> heights;
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), height); at != std::sregex_iterator();
       ++at) {
    heights.push_back(std::stod((*at)[1]));
  }
  ASSERT_EQ(heights.size(), 8U);
  EXPECT_LT(heights[3], heights[0]);
}

TEST(SweepSvg, one_point_is_a_picture_too) {
  expect_well_formed(sweep_svg(Json::array({point("eager", 8, 0, 0)})));
}

}  // namespace
}  // namespace serve_wdl
