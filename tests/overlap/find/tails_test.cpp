// SPDX-License-Identifier: Apache-2.0
// Tests what work loses that waits for the tail of another stream, of which it needs at most the
// memory, and what a window beyond the recording is.
#include "overlap/find/find.hpp"
#include "overlap/find/hand_made.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

namespace msstream::overlap {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

/// Steps of `kernels` kernels that take 800 us together, and an upload of `upload` us that waits
/// for the tail of the step, as the next step does for the upload.
Recording uploads_behind_steps(int kernels, double upload) {
  HandMade program;
  double at = 0;
  for (int step = 0; step < 10; ++step) {
    double issued = 10.0 * step - 300;
    for (int i = 0; i < kernels; ++i) {
      double const length = 800.0 / kernels;
      program.kernel(0, issued, at, at + length - 1);
      at += length;
      issued += 0.1;
    }
    program.wait(1, 0, issued + 2.2, issued + 2.8);
    program.copy(1, CopyDirection::h2d, issued + 3.4, at + 2, at + 2 + upload);
    program.wait(0, 1, issued + 5.5, issued + 6.1);
    at += upload + 4;
  }
  program.recording.sort();
  return std::move(program.recording);
}

/// However many kernels a step has, all of it is in the way of an upload that is as long.
TEST(TailsTest, all_of_a_step_is_in_the_way_of_an_upload) {
  for (int const kernels : {1, 2, 8}) {
    auto const report = find(uploads_behind_steps(kernels, 700));
    ASSERT_FALSE(report.findings.empty()) << kernels;
    auto const& finding = report.findings.front();
    EXPECT_EQ(finding.cause, Cause::false_dependency) << kernels;
    EXPECT_NEAR(static_cast<double>(finding.lost), 10 * 700e3, 0.02 * 10 * 700e3) << kernels;
    EXPECT_THAT(finding.summary, HasSubstr("another buffer frees")) << kernels;
  }
}

/// An upload that could run at any time of a long step loses no more than it takes, which is also
/// what its fix gains.
TEST(TailsTest, a_short_upload_loses_its_own_time) {
  auto const report = find(uploads_behind_steps(8, 100));
  ASSERT_FALSE(report.findings.empty());
  auto const& finding = report.findings.front();
  EXPECT_EQ(finding.cause, Cause::false_dependency);
  EXPECT_NEAR(static_cast<double>(finding.lost), 10 * 100e3, 0.1 * 10 * 100e3);
  ASSERT_TRUE(finding.prediction);
  auto const gain = finding.prediction->before - finding.prediction->after;
  EXPECT_NEAR(static_cast<double>(gain), static_cast<double>(finding.lost), 0.25 * 10 * 100e3);
}

/// Each of several uploads may wait for the tail, as `side.wait_stream(current)` before each makes
/// it.
TEST(TailsTest, uploads_that_each_wait_for_the_tail_lose_together_and_are_freed_together) {
  for (bool const each_waits : {false, true}) {
    HandMade program;
    double at = 0;
    for (int step = 0; step < 10; ++step) {
      double issued = 40.0 * step - 700;
      program.kernel(0, issued, at, at + 800);
      at += 800;
      for (int i = 0; i < 6; ++i) {
        if (i == 0 || each_waits) {
          program.wait(1, 0, issued + 2.2, issued + 2.8);
        }
        program.copy(1, CopyDirection::h2d, issued + 3.4, at + 2, at + 52);
        at += 51;
        issued += 5;
      }
      program.wait(0, 1, issued + 5.5, issued + 6.1);
      at += 4;
    }
    program.recording.sort();
    auto const report = find(program.recording);
    ASSERT_FALSE(report.findings.empty()) << each_waits;
    auto const& finding = report.findings.front();
    EXPECT_EQ(finding.cause, Cause::false_dependency) << each_waits;
    EXPECT_NEAR(static_cast<double>(finding.lost), 10 * 300e3, 0.1 * 10 * 300e3) << each_waits;
    ASSERT_TRUE(finding.prediction);
    EXPECT_LT(finding.prediction->after, finding.prediction->before - 2'000'000) << each_waits;
  }
}

/// With two buffers, the upload for the next step is issued before this step, and waits for the
/// last one, which used its buffer. A third buffer would gain, since uploads differ in length.
TEST(TailsTest, an_upload_into_the_other_of_two_buffers_is_right) {
  HandMade program;
  double issued = -300;
  double uploaded = 100;  // when the upload for this step has ended
  program.copy(1, CopyDirection::h2d, issued, 0, uploaded);
  double last_end = 0;  // of the kernel of the last step
  for (int step = 0; step < 12; ++step) {
    issued += 12;
    double const begin = std::max(uploaded, last_end) + 2;
    double const next = std::max(uploaded, last_end) + 2;  // begin of the upload for the next step
    double const next_end = next + (step % 2 == 0 ? 500 : 100);
    program.call(CallKind::other, issued - 2, issued - 1);
    auto const recorded = program.call(CallKind::record_event, issued - 1, issued - 0.5);
    program.recording.event_records.push_back({recorded, 1, 100 + step});
    if (step > 0) {
      program.wait(1, 0, issued, issued + 0.6);  // for the last step, the tail now
    }
    program.copy(1, CopyDirection::h2d, issued + 1.2, next, next_end);
    auto const waits = program.call(CallKind::wait_event, issued + 3.4, issued + 3.8);
    auto const at = static_cast<Ns>((issued + 3.4) * 1'000);
    program.recording.syncs.push_back({{at, at + 400}, SyncKind::wait, waits, 0, recorded, 1});
    program.kernel(0, issued + 4, begin, begin + 300);
    last_end = begin + 300;
    uploaded = next_end;
  }
  program.recording.sort();
  for (auto const& finding : find(program.recording).findings) {
    EXPECT_NE(finding.cause, Cause::false_dependency) << finding.summary;
  }
}

/// Two streams that wait for each other after each kernel: branches if the kernels are instances of
/// one template with other numbers, and producer and consumer if they differ otherwise.
TEST(TailsTest, instances_of_one_template_are_equal_work) {
  struct Names {
    std::string first;
    std::string second;
    Cause cause;
  };
  for (auto const& [first, second, cause] :
       {Names{"void tower<float, 0>(float*)",
              "void tower<float, 17>(float*)",
              Cause::false_dependency},
        Names{
            "void tower<float, 0>(float*)", "void head<float, 0>(float*)", Cause::true_dependency},
        Names{"void map<4, Multiply>(float*)", "void map<4, Add>(float*)", Cause::true_dependency},
        Names{"void scan<int8_t, Sweep1>(int*)",
              "void scan<int32_t, Sweep2>(int*)",
              Cause::true_dependency},
        Names{"layer0", "layer1", Cause::true_dependency}}) {
    HandMade program;
    auto& recording = program.recording;
    for (int i = 0; i < 12; ++i) {
      double const at = 404.0 * i;
      double const issued = 12.0 * i - 400;
      for (Index stream = 0; stream < 2; ++stream) {
        auto const begin = at + 202 * stream;
        auto const kernel = program.kernel(stream, issued + 6 * stream, begin, begin + 200);
        recording.activities[kernel].name = recording.names.id_of(stream == 0 ? first : second);
        program.wait(1 - stream, stream, issued + 6 * stream + 3, issued + 6 * stream + 4);
      }
    }
    recording.sort();
    auto const report = find(recording);
    ASSERT_FALSE(report.findings.empty());
    EXPECT_EQ(report.findings.front().cause, cause) << second << report.findings.front().summary;
  }
}

TEST(TailsTest, a_window_beyond_the_recording_ends_where_that_ends) {
  auto const recording = uploads_behind_steps(2, 700);
  auto const extent = *recording.extent();
  FindOptions options;
  options.window = Interval{extent.begin, 1'000 * extent.end};
  auto const report = find(recording, options);
  EXPECT_EQ(report.window, extent);
  EXPECT_THAT(report.notes, Contains(HasSubstr("reaches beyond the recording")));
  options.window = Interval{extent.begin + 1'000, extent.end - 1'000};
  auto const inside = find(recording, options);
  EXPECT_EQ(inside.window, *options.window);
  for (auto const& note : inside.notes) {
    EXPECT_EQ(note.find("reaches beyond the recording"), std::string::npos);
  }
}

}  // namespace
}  // namespace msstream::overlap
