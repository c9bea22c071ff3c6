// SPDX-License-Identifier: Apache-2.0
// Judges made-up measurements.
#include "doctor/measure/device_measures.hpp"

#include "doctor/measure/measure_host.hpp"
#include "find_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msstream::doctor {
namespace {

using ::testing::HasSubstr;

TEST(DoctorMeasures, intervals_that_touch_are_not_at_once) {
  EXPECT_EQ(most_at_once({}), 0);
  EXPECT_EQ(most_at_once({{5, 5}, {0, 0}}), 0);
  EXPECT_EQ(most_at_once({{0, 10}, {10, 20}, {20, 30}}), 1);
  EXPECT_EQ(most_at_once({{20, 30}, {0, 10}, {9, 21}}), 2);
  EXPECT_EQ(most_at_once({{0, 10}, {1, 9}, {2, 8}, {8, 12}}), 3);
}

TEST(DoctorMeasures, the_hidden_share_is_that_of_the_shorter_work) {
  EXPECT_DOUBLE_EQ(hidden_share(10, 10, 20), 0);
  EXPECT_DOUBLE_EQ(hidden_share(10, 10, 10), 1);
  EXPECT_DOUBLE_EQ(hidden_share(10, 4, 12), 0.5);
  EXPECT_DOUBLE_EQ(hidden_share(10, 4, 99), 0);
  EXPECT_DOUBLE_EQ(hidden_share(10, 0, 10), 0);
}

/// About what an H200 has.
DeviceMeasures good_measures() {
  DeviceMeasures measures;
  measures.link_gb_per_s = 63;
  measures.pinned_h2d_gb_per_s = 55;
  measures.pinned_d2h_gb_per_s = 53;
  measures.pageable_h2d_gb_per_s = 50;
  measures.pageable_d2h_gb_per_s = 49;
  measures.memory_gb_per_s = 4000;
  measures.peers = {{1, true, 380.0}};
  measures.launch_us = 2.5;
  measures.issue_us = 2.6;
  measures.replay_us = 6;
  measures.captured_operations = 32;
  measures.streams_at_once = 32;
  measures.streams_tried = 128;
  measures.kernels_hidden = 0.99;
  measures.copy_hidden = 0.98;
  measures.copies_hidden = 0.85;
  return measures;
}

TEST(DoctorMeasures, good_measures_have_no_advice) {
  auto const lines = device_measure_lines(good_measures());
  EXPECT_EQ(worst_of(lines), Level::ok);
  EXPECT_EQ(lines.size(), 13U);
  EXPECT_EQ(the_line(lines, "pinned-h2d").value, "55 GB/s of 63 GB/s");
  EXPECT_EQ(the_line(lines, "peer").value, "380 GB/s, direct");
  EXPECT_EQ(the_line(lines, "kernel-overlap").value, "99 % hidden");
}

TEST(DoctorMeasures, slow_copies_are_measured_by_their_link) {
  auto measures = good_measures();
  measures.pinned_h2d_gb_per_s = 12;
  EXPECT_EQ(level_of(device_measure_lines(measures), "pinned-h2d"), Level::slow);
  measures.link_gb_per_s = 15.8;  // PCI Express 3.0
  EXPECT_EQ(level_of(device_measure_lines(measures), "pinned-h2d"), Level::ok);
  measures.link_gb_per_s = 0;  // unknown
  EXPECT_EQ(level_of(device_measure_lines(measures), "pinned-h2d"), Level::ok);
  measures.pinned_h2d_gb_per_s = 5;
  EXPECT_EQ(level_of(device_measure_lines(measures), "pinned-h2d"), Level::slow);
}

TEST(DoctorMeasures, pageable_copies_are_compared_with_pinned_ones) {
  auto measures = good_measures();
  measures.pageable_h2d_gb_per_s = 11;
  auto const line = the_line(device_measure_lines(measures), "pageable-h2d");
  EXPECT_EQ(line.level, Level::note);
  EXPECT_THAT(line.advice, HasSubstr("20 % of the speed"));
}

TEST(DoctorMeasures, peers_without_access_are_noted) {
  auto measures = good_measures();
  measures.peers = {{1, false, 20.0}};
  EXPECT_EQ(level_of(device_measure_lines(measures), "peer"), Level::note);
  measures.peers = {{1, true, 2.0}};
  EXPECT_EQ(level_of(device_measure_lines(measures), "peer"), Level::slow);
  measures.peers = {{1, true, {}}};
  EXPECT_EQ(the_line(device_measure_lines(measures), "peer").value, "not measured, direct");
}

TEST(DoctorMeasures, launches_are_judged) {
  auto measures = good_measures();
  measures.launch_us = 8;
  measures.issue_us = 8.1;
  EXPECT_EQ(level_of(device_measure_lines(measures), "launch"), Level::note);
  measures.launch_us = 20;
  measures.issue_us = 25;
  auto lines = device_measure_lines(measures);
  EXPECT_EQ(level_of(lines, "launch"), Level::slow);
  EXPECT_EQ(level_of(lines, "issue"), Level::slow);
  EXPECT_THAT(the_line(lines, "issue").value, HasSubstr("5 µs more"));
  measures.replay_us = 32 * 30.0;
  EXPECT_EQ(level_of(device_measure_lines(measures), "replay"), Level::note);
}

TEST(DoctorMeasures, few_hardware_queues_are_told) {
  auto measures = good_measures();
  measures.streams_at_once = 8;
  auto const line = the_line(device_measure_lines(measures), "hardware-queues");
  EXPECT_EQ(line.level, Level::note);
  EXPECT_EQ(line.value, "8 of 128");
  EXPECT_THAT(line.advice, HasSubstr("Set CUDA_DEVICE_MAX_CONNECTIONS=32"));
  measures.max_connections_set = true;
  measures.streams_at_once = 1;
  EXPECT_EQ(level_of(device_measure_lines(measures), "hardware-queues"), Level::slow);
  measures.streams_at_once = 0;  // the kernels wrote no times
  EXPECT_EQ(level_of(device_measure_lines(measures), "hardware-queues"), Level::note);
}

TEST(DoctorMeasures, work_that_does_not_overlap_is_slow) {
  auto measures = good_measures();
  measures.kernels_hidden = 0.02;
  measures.copy_hidden = 0.6;
  auto const lines = device_measure_lines(measures);
  EXPECT_EQ(level_of(lines, "kernel-overlap"), Level::slow);
  EXPECT_EQ(level_of(lines, "copy-overlap"), Level::note);
}

TEST(DoctorMeasures, failures_are_bad_and_have_the_message) {
  DeviceMeasures measures;
  measures.failures = {{"launch", "launches", "an illegal address"}};
  auto const lines = device_measure_lines(measures);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].level, Level::bad);
  EXPECT_THAT(lines[0].advice, HasSubstr("an illegal address"));
}

TEST(DoctorMeasures, a_busy_host_is_told) {
  HostMeasures measures{4, 3.9, 8, 12, 1};
  EXPECT_EQ(worst_of(host_measure_lines(measures)), Level::ok);
  measures.threads_at_once = 1.5;
  EXPECT_EQ(level_of(host_measure_lines(measures), "threads-at-once"), Level::slow);
  measures.wake_us = 80;
  EXPECT_THAT(the_line(host_measure_lines(measures), "thread-wake-up").advice,
              HasSubstr("MSSTREAM_LAUNCH_SPIN_US"));
  measures.copy_gb_per_s = 1;
  EXPECT_EQ(level_of(host_measure_lines(measures), "memory-copy"), Level::note);
  measures.issue_us = 30;
  EXPECT_EQ(level_of(host_measure_lines(measures), "host-issue"), Level::note);
  EXPECT_TRUE(host_measure_lines({}).empty());
}

}  // namespace
}  // namespace msstream::doctor
