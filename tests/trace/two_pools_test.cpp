// SPDX-License-Identifier: Apache-2.0
// Tests the timeline of two pools of one device, whose groups have the same names.
#include <msstream/msstream.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <string>
#include <tuple>
#include <vector>

namespace msstream {
namespace {

// first's group 0  = [left, which ends after right has begun]
// second's group 0 = [right, which ends after left has begun]
TEST(TimelineOfTwoPools, has_a_lane_for_each_stream) {
  Device<Host> const device;
  StreamPool<Host> const first(device, {.groups = 1});
  StreamPool<Host> const second(device, {.groups = 1});
  Tensor<float, Host> const a(device, {1});
  Tensor<float, Host> const b(device, {1});
  std::latch both(2);
  auto const meet = [&both](HostStream on) { on.run([&both] { both.arrive_and_wait(); }); };
  auto const issue_on = [&](StreamGroup<Host> const& group, char const* name, auto const& written) {
    StreamScope<Host> const scope(group);
    return issue(name, writes(written), meet);
  };
  device.start_spans();
  auto const left = issue_on(first[0], "left", a);
  auto const right = issue_on(second[0], "right", b);
  auto const timeline = device.stop_spans();

  ASSERT_EQ(timeline.spans().size(), 2U);
  EXPECT_GT(timeline.overlapped_ns(), 0);
  ASSERT_EQ(timeline.lanes(), (std::vector<std::string>{"group 0 compute", "group 0 compute (2)"}));
  auto const trace = timeline.trace_json();
  for (auto const& [name, lane, position] : {std::tuple("left", 1, left), {"right", 2, right}}) {
    EXPECT_THAT(trace, ::testing::HasSubstr(fmt::format(R"("tid": {}, "name": "{}")", lane, name)));
    EXPECT_THAT(
        trace,
        ::testing::HasSubstr(fmt::format(R"("args": {{"stream": {}, "number": {}, "launch_us": )",
                                         position.stream,
                                         position.number)));
  }
}

}  // namespace
}  // namespace msstream
