// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/picture.hpp"

#include "overlap/find/find.hpp"
#include "overlap/show/example.hpp"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace msstream::overlap {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

std::size_t occurrences_in(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

std::string picture_of(Example const& example, PictureOptions const& options = {}) {
  return svg_text(example.all(), options);
}

/// Returns a recording of `count` short kernels in turns on `streams` streams, and what is found.
struct ManyKernels {
  Recording recording;
  Report report;

  ManyKernels(int count, int streams) {
    recording.origin = "many.json";
    recording.devices.push_back({.name = "GPU"});
    for (int i = 0; i < streams; ++i) {
      recording.streams.push_back({.number = 100 + i, .priority = {}});
    }
    auto const name = recording.names.id_of("kernel");
    for (int i = 0; i < count; ++i) {
      // Later streams have longer kernels.
      recording.activities.push_back({.time = {i * 1000, i * 1000 + 100 + i % streams},
                                      .name = name,
                                      .stream = static_cast<Index>(i % streams)});
    }
    report = find(recording, {});
  }
  [[nodiscard]] std::string picture(PictureOptions const& options = {}) const {
    std::vector<Explained> const all{{recording, report}};
    return svg_text(all, options);
  }
};

TEST(OverlapPicture, has_the_lanes_the_times_and_the_findings) {
  auto const picture = picture_of(Example());
  for (auto const* words : {"2 streams, host-busy: 60% busy",
                            "stream 7",
                            "stream 20 (copies)",
                            "calls, main",
                            "Memcpy HtoD",
                            "one alone 60%",
                            "idle: host-busy 30%",
                            "idle: launch-bound 10%",
                            "host-busy: "}) {
    EXPECT_THAT(picture, HasSubstr(words));
  }
  // The axis: 0 to 100 µs.
  EXPECT_THAT(picture, HasSubstr(">20.0 µs<"));
  EXPECT_THAT(picture, HasSubstr(">100 µs<"));
}

TEST(OverlapPicture, activities_have_their_places) {
  // The 100 µs of the window go from x = 164 to x = 946.
  auto const picture = picture_of(Example(), {.width = 960});
  auto const x = [](double us) { return 164 + us / 100 * (946 - 164); };
  for (auto const& [begin, end] : {std::pair(10.0, 30.0), {40.0, 60.0}, {80.0, 100.0}}) {
    EXPECT_THAT(picture,
                ContainsRegex(fmt::format("<rect x=\"{:.1f}\" y=\"[0-9.]+\" width=\"{:.1f}\" "
                                          "height=\"17.0\"",
                                          x(begin),
                                          x(end) - x(begin) - 0.5)));
  }
}

TEST(OverlapPicture, an_arrow_leads_from_the_copy_to_the_kernel_that_waited) {
  EXPECT_EQ(occurrences_in(picture_of(Example()), "marker-end"), 1U);
  EXPECT_EQ(occurrences_in(picture_of(Example(), {.most_arrows = 0}), "marker-end"), 0U);
  EXPECT_EQ(occurrences_in(picture_of(Example(), {.most_streams = 1}), "marker-end"), 0U);
}

TEST(OverlapPicture, shows_names_as_text) {
  auto const picture = picture_of(Example("</text><script>alert(1)</script>&\"\x01", "a note"));
  EXPECT_THAT(picture, Not(HasSubstr("<script")));
  EXPECT_THAT(picture, Not(HasSubstr("\x01")));
  // Elements are closed as often as they are opened.
  for (auto const* element : {"text", "svg", "defs", "marker"}) {
    EXPECT_EQ(occurrences_in(picture, fmt::format("<{}", element)),
              occurrences_in(picture, fmt::format("</{}>", element)))
        << element;
  }
}

TEST(OverlapPicture, names_of_kernels_lose_namespaces_and_arguments) {
  auto const picture =
      picture_of(Example("void (anonymous namespace)::app::gemm<float, 4>(float*)", ""));
  EXPECT_THAT(picture, HasSubstr(">gemm<"));
  EXPECT_THAT(picture_of(Example("<lambda>", "")), HasSubstr("&lt;lambda&gt;"));
}

TEST(OverlapPicture, of_the_timeline_alone_has_no_causes) {
  auto const whole = picture_of(Example());
  auto const timeline = picture_of(Example(), {.only_timeline = true});
  for (auto const* words : {"stream 7", "Memcpy HtoD", ">100 µs<", "marker-end"}) {
    EXPECT_THAT(timeline, HasSubstr(words));
  }
  for (auto const* words : {"host-busy", "launch-bound", "one alone"}) {
    EXPECT_THAT(whole, HasSubstr(words));
    EXPECT_THAT(timeline, Not(HasSubstr(words)));
  }
}

TEST(OverlapPicture, equal_reports_give_equal_bytes) {
  EXPECT_EQ(picture_of(Example()), picture_of(Example()));
}

TEST(OverlapPicture, of_a_million_activities_is_small) {
  ManyKernels const many(1'000'000, 3);
  auto const picture = many.picture();
  EXPECT_LT(picture.size(), 1'000'000U);
  EXPECT_THAT(picture, HasSubstr("stream 102"));
}

TEST(OverlapPicture, of_many_streams_has_the_busiest) {
  ManyKernels const many(200, 20);
  auto const picture = many.picture({.most_streams = 2});
  EXPECT_THAT(picture, HasSubstr(">stream 118<"));
  EXPECT_THAT(picture, HasSubstr(">stream 119<"));
  EXPECT_THAT(picture, Not(HasSubstr(">stream 117<")));
  EXPECT_THAT(picture, HasSubstr("18 more streams, with less work"));
}

TEST(OverlapPicture, of_nothing_is_a_picture) {
  Recording recording;
  recording.origin = "empty.json";
  Report report;
  std::vector<Explained> const all{{recording, report}};
  auto const picture = svg_text(all, {.width = 1});
  EXPECT_THAT(picture, HasSubstr("width=\"400\""));
  EXPECT_THAT(picture, HasSubstr("</svg>"));
}

}  // namespace
}  // namespace msstream::overlap
