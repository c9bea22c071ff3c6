// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/terminal.hpp"

#include "overlap/show/example.hpp"
#include "overlap/show/report_json.hpp"
#include "overlap/show/text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace msstream::overlap {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(OverlapTerminal, the_table_adds_up_to_the_window) {
  Example const example;
  auto const text = terminal_text(example.explained(), {});
  EXPECT_THAT(text, HasSubstr("train.py (example.json, Kineto)"));
  // docs/overlap.md shows this part.
  EXPECT_THAT(
      text,
      HasSubstr("2 streams, host-busy: 60% busy\n"
                "\n"
                "GPU 3, NVIDIA H100, 132 multiprocessors · 2 streams · 3 activities\n"
                "  one alone, nothing to run beside it   60.000 µs   60.0%  ██████████████████\n"
                "  idle: launch-bound                    10.000 µs   10.0%  ███\n"
                "  idle: host-busy                       30.000 µs   30.0%  █████████\n"
                "  ───────────────────────────────────────────────────────\n"
                "  the window                           100.000 µs  100.0%\n"
                "  busy 60%; activities at once: 0: 40%, 1: 60%\n"
                "  work                                     busy        exposed beside kernels\n"
                "  kernels                         40.0 µs   40%  40.0 µs   40%               \n"
                "  copies h2d                      20.0 µs   20%  20.0 µs   20%     0 ns  0.0%\n"
                "  stream                                   busy           idle          alone\n"
                "  stream 7 (legacy default)       40.0 µs   40%  60.0 µs   60%  40.0 µs   40%\n"
                "  stream 20 (copies)              20.0 µs   20%  80.0 µs   80%  20.0 µs   20%\n"));
}

TEST(OverlapTerminal, findings_say_cause_loss_gain_evidence_and_advice) {
  Example const example;
  auto const text = terminal_text(example.explained(), {});
  EXPECT_THAT(text, HasSubstr("1. The host did something else [host-busy]"));
  EXPECT_THAT(text, HasSubstr("lost: 30.0 µs, 30% of the window, 2 times"));
  EXPECT_THAT(text, HasSubstr("gain, predicted: 30.0 µs (100 µs → 70.0 µs, 1.43x)"));
  EXPECT_THAT(text, HasSubstr("· at 0.060 ms: 20 us idle before late"));
  EXPECT_THAT(text, HasSubstr("→ Prepare input ahead."));
  EXPECT_THAT(text, HasSubstr("Its gain is in part that of finding 2: do not add them."));
  EXPECT_THAT(text, HasSubstr("· a note"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(OverlapTerminal, a_guess_is_marked_and_explained) {
  Example example;
  auto& guess = example.report.findings.front();
  EXPECT_THAT(terminal_text(example.explained(), {}), Not(HasSubstr("a guess")));
  guess.is_guess = true;
  auto const text = terminal_text(example.explained(), {});
  EXPECT_THAT(text, HasSubstr(std::string(text_of(guess.cause).id) + ", a guess]"));
  EXPECT_THAT(text, HasSubstr("What is a guess weighs half."));
  EXPECT_THAT(json_text(std::vector{example.explained()}), HasSubstr("\"guess\": true"));
}

TEST(OverlapTerminal, the_order_and_the_largest_gain_are_said_in_one_place) {
  Example example;
  auto const order = [&] { return terminal_text(example.explained(), {.width = 160}); };
  EXPECT_THAT(order(), HasSubstr("2 findings, the largest loss first\nLost is the time"));
  EXPECT_THAT(order(), Not(HasSubstr("has the largest gain")));
  example.report.findings[1].prediction =
      Prediction{100'000, 60'000, PredictedRange{50'000, 100'000, "It depends."}};
  EXPECT_THAT(order(), HasSubstr("Finding 2 has the largest gain."));
  EXPECT_THAT(order(), HasSubstr("gain between nothing and 50.0 µs: It depends."));
}

TEST(OverlapTerminal, an_estimate_without_recording_is_marked_as_one) {
  Example example;
  example.report.recording_cost =
      RecordingCost{.launches = 2, .least_window = 80'000, .most_window = 90'000};
  EXPECT_THAT(terminal_text(example.explained(), {}),
              HasSubstr("  the window without recording, an estimate: 80.0 µs to 90.0 µs\n"));
  example.report.recording_cost->least_window = 99'000;
  EXPECT_THAT(terminal_text(example.explained(), {}), Not(HasSubstr("an estimate")));
}

TEST(OverlapTerminal, notes_of_the_recording_follow_those_of_the_report) {
  Example example;
  example.recording.notes.emplace_back("the trace has no calls");
  EXPECT_THAT(terminal_text(example.explained(), {}),
              HasSubstr("· a note\n· The trace has no calls.\n"));
}

TEST(OverlapTerminal, a_report_without_findings_says_so) {
  Example example;
  example.report.findings.clear();
  EXPECT_THAT(terminal_text(example.explained(), {}), HasSubstr("No findings."));
}

TEST(OverlapTerminal, names_of_causes_are_whole_in_any_width) {
  Example example;
  example.report.devices[0].times.back() = {TimeClass::lost, Cause::host_synchronization, 30'000};
  for (std::size_t const width : {50U, 60U, 100U}) {
    EXPECT_THAT(terminal_text(example.explained(), {.width = width}),
                HasSubstr("  one alone, others waited: host-synchronization"))
        << width;
  }
}

TEST(OverlapTerminal, lines_fit_the_width) {
  Example const example(std::string(300, 'k') + " " + std::string(50, 'x'));
  for (std::size_t const width : {40U, 60U, 100U}) {
    std::istringstream lines(terminal_text(example.explained(), {.width = width}));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(width_of(line), width) << line;
    }
  }
}

TEST(OverlapTerminal, colours_and_characters_beyond_ascii_can_be_left_out) {
  Example const example;
  EXPECT_THAT(terminal_text(example.explained(), {.colour = true}), HasSubstr("\x1b["));
  auto const ascii = terminal_text(example.explained(), {.unicode = false});
  EXPECT_TRUE(std::ranges::all_of(ascii, [](char c) {
    return static_cast<unsigned char>(c) < 0x80;
  })) << ascii;
}

TEST(OverlapTerminal, names_of_the_recording_cannot_control_the_terminal) {
  Example const example(hostile_name(), hostile_name());
  auto const text = terminal_text(example.explained(), {});
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\xE2\x80\xAE")));
}

}  // namespace
}  // namespace msstream::overlap
