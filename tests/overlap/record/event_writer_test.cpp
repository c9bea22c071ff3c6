// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/event_writer.hpp"

#include "overlap/record/frame.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace {

using namespace msstream::overlap::record;
using Json = nlohmann::json;

/// Returns the events of a file with these events, which checks that the whole is JSON.
std::vector<Json> events_of(EventWriter& writer) {
  Head head;
  head.program = "a \"program\"\n\xFF";
  Json const file = Json::parse(text_of(head) + writer.take() + text_of(Foot()));
  auto const& all = file.at("traceEvents");
  return {all.begin() + 1, all.end()};
}

std::vector<Json> of_category(std::vector<Json> const& events, std::string const& category) {
  std::vector<Json> found;
  std::copy_if(events.begin(), events.end(), std::back_inserter(found), [&](Json const& event) {
    return event.value("cat", "") == category && event.at("ph") == "X";
  });
  return found;
}

TEST(OverlapEventWriter, a_kernel_has_kinetos_fields) {
  EventWriter writer(42, 1'000);
  DeviceFacts device;
  device.sms = 4;
  device.warp = 32;
  writer.add(device);
  writer.add(StreamMade{.context = 1, .stream = 7, .priority = -3, .flag = 2});
  Kernel kernel;
  kernel.work.time = {3'500, 5'750};
  kernel.work.place = {0, 1, 7};
  kernel.work.correlation = 11;
  kernel.work.channel = 5;
  kernel.work.channel_type = 1;
  kernel.name = "_Z10add_valuesPfi";
  kernel.grid = {8, 2, 1};
  kernel.block = {64, 1, 1};
  kernel.registers_per_thread = 40;
  kernel.shared_bytes = 1024;
  writer.add(kernel);
  auto const kernels = of_category(events_of(writer), "kernel");
  ASSERT_EQ(kernels.size(), 1U);
  Json const& event = kernels.front();
  EXPECT_EQ(event.at("name"), "add_values(float*, int)");
  EXPECT_EQ(event.at("pid"), 0);
  EXPECT_EQ(event.at("tid"), 7);
  EXPECT_DOUBLE_EQ(event.at("ts"), 2.5);
  EXPECT_DOUBLE_EQ(event.at("dur"), 2.25);
  Json const& args = event.at("args");
  EXPECT_EQ(args.at("correlation"), 11);
  EXPECT_EQ(args.at("grid"), Json::array({8, 2, 1}));
  EXPECT_EQ(args.at("registers per thread"), 40);
  EXPECT_EQ(args.at("shared memory"), 1024);
  EXPECT_EQ(args.at("blocks per SM"), 4);
  EXPECT_EQ(args.at("warps per SM"), 8);
  EXPECT_EQ(args.at("priority"), -3);
  EXPECT_EQ(args.at("channel"), 5);
  EXPECT_EQ(args.count("graph node id"), 0U);
}

TEST(OverlapEventWriter, copies_and_fills_name_their_memory) {
  EventWriter writer(42, 0);
  Copy copy;
  copy.work.time = {1'000, 3'000};
  copy.direction = 1;
  copy.source = 1;
  copy.target = 3;
  copy.bytes = 4'000;
  writer.add(copy);
  Fill fill;
  fill.work.time = {1, 2};
  fill.target = 3;
  writer.add(fill);
  auto const events = events_of(writer);
  EXPECT_EQ(of_category(events, "gpu_memcpy").at(0).at("name"), "Memcpy HtoD (Pageable -> Device)");
  EXPECT_EQ(of_category(events, "gpu_memcpy").at(0).at("args").at("memory bandwidth (GB/s)"), 2);
  EXPECT_EQ(of_category(events, "gpu_memset").at(0).at("name"), "Memset (Device)");
}

TEST(OverlapEventWriter, a_wait_names_the_recording_although_the_event_is_used_again) {
  EventWriter writer(42, 0);
  Synchronisation wait;
  wait.kind = Waiting::stream_for_event;
  wait.stream = 8;
  wait.correlation = 20;
  wait.event = 5;
  wait.event_sync = 101;
  writer.add(wait);  // arrives before the recording
  for (std::uint64_t const sync : {100, 101, 102}) {
    EventRecorded recorded;
    recorded.place.stream = static_cast<std::uint32_t>(sync);
    recorded.correlation = static_cast<std::uint32_t>(sync * 10);
    recorded.event = 5;
    recorded.event_sync = sync;
    writer.add(recorded);
  }
  writer.settle(false);
  auto const syncs = of_category(events_of(writer), "cuda_sync");
  ASSERT_EQ(syncs.size(), 1U);
  EXPECT_EQ(syncs[0].at("args").at("cuda_sync_kind"), "Stream Wait Event");
  EXPECT_EQ(syncs[0].at("args").at("wait_on_stream"), 101);
  EXPECT_EQ(syncs[0].at("args").at("wait_on_cuda_event_record_corr_id"), 1010);
}

TEST(OverlapEventWriter, without_numbers_of_recordings_a_wait_names_the_last_one_before_it) {
  EventWriter writer(42, 0);
  for (std::uint32_t const correlation : {30, 10, 20}) {
    EventRecorded recorded;
    recorded.place.stream = correlation;
    recorded.correlation = correlation;
    recorded.event = 5;
    writer.add(recorded);
  }
  Synchronisation wait;
  wait.kind = Waiting::event;
  wait.correlation = 25;
  wait.event = 5;
  writer.add(wait);
  wait.event = 6;  // never recorded
  writer.add(wait);
  writer.settle(true);
  auto const syncs = of_category(events_of(writer), "cuda_sync");
  ASSERT_EQ(syncs.size(), 2U);
  EXPECT_EQ(syncs[0].at("args").at("wait_on_cuda_event_record_corr_id"), 20);
  EXPECT_EQ(syncs[1].at("args").at("wait_on_cuda_event_record_corr_id"), -1);
}

TEST(OverlapEventWriter, driver_calls_inside_a_runtime_call_are_left_out) {
  EventWriter writer(42, 0);
  ApiCall call;
  call.thread = 1;
  auto const add = [&](bool of_driver, std::string_view name, Time time) {
    call.of_driver = of_driver;
    call.name = name;
    call.time = time;
    writer.add(call);
  };
  add(true, "cuMemAlloc", {1, 2});        // alone
  add(true, "cuLaunchKernel", {11, 19});  // inside
  add(false, "cudaLaunchKernel", {10, 20});
  add(true, "cuStreamSynchronize", {30, 40});  // alone, and nothing follows
  writer.settle(true);
  auto const events = events_of(writer);
  auto const of_driver = of_category(events, "cuda_driver");
  ASSERT_EQ(of_driver.size(), 2U);
  EXPECT_EQ(of_driver[0].at("name"), "cuMemAlloc");
  EXPECT_EQ(of_driver[1].at("name"), "cuStreamSynchronize");
  EXPECT_EQ(of_category(events, "cuda_runtime").size(), 1U);
}

TEST(OverlapEventWriter, hostile_names_stay_json) {
  EventWriter writer(42, 0);
  std::string const name("a\"\\\n\t\x01\x7F\xFF\xC3\xA4\xED\xA0\x80</script>");
  writer.add(NamedRange{.time = {1, 2}, .name = name, .domain = "d\"", .thread = 3});
  auto const ranges = of_category(events_of(writer), "user_annotation");
  ASSERT_EQ(ranges.size(), 1U);
  EXPECT_EQ(ranges[0].at("args").at("domain"), "d\"");
  EXPECT_NE(ranges[0].at("name").get<std::string>().find("\xC3\xA4"), std::string::npos);
}

TEST(OverlapEventWriter, whole_graphs_belong_to_the_window_of_their_launch) {
  EventWriter writer(42, 1'000);
  auto const add_graph = [&](std::uint32_t correlation) {
    WholeGraph graph;
    graph.work.time = {5'000 + correlation, 9'000};
    graph.work.graph = correlation;
    graph.work.correlation = correlation;
    writer.add(graph);
  };
  auto const add_call = [&](std::uint32_t correlation, bool of_driver) {
    ApiCall call;
    call.time = {2'000 + correlation * 10, 2'005 + correlation * 10};
    call.name = of_driver ? "cuGraphLaunch" : "cudaGraphLaunch";
    call.of_driver = of_driver;
    call.correlation = correlation;
    writer.add(call);
  };
  auto const names = [&] {
    std::vector<std::string> found;
    for (auto const& event : of_category(events_of(writer), "kernel")) {
      found.push_back(event.at("name"));
    }
    return found;
  };
  add_graph(1);  // without windows, all are taken
  EXPECT_EQ(names(), std::vector<std::string>{"CUDA graph 1"});
  writer.take_graphs_of_calls_alone();
  add_call(2, false);
  add_graph(2);  // runs long after its launch
  add_graph(3);
  add_graph(4);  // launched outside the window
  add_graph(5);
  add_call(3, false);
  add_call(5, true);  // kept until settle() was called twice
  EXPECT_EQ(names(), std::vector<std::string>{"CUDA graph 2"});
  writer.settle(false);
  EXPECT_EQ(names(), std::vector<std::string>{"CUDA graph 3"});
  writer.settle(false);
  EXPECT_EQ(names(), std::vector<std::string>{"CUDA graph 5"});
  writer.settle(true);
  EXPECT_TRUE(names().empty());
}

TEST(OverlapEventWriter, names_of_c_functions_are_not_taken_for_types) {
  EventWriter writer(42, 0);
  Kernel kernel;
  kernel.work.time = {1, 2};
  kernel.name = "t";
  writer.add(kernel);
  EXPECT_EQ(of_category(events_of(writer), "kernel").at(0).at("name"), "t");
}

TEST(OverlapEventWriter, work_without_times_is_counted_and_left_out) {
  EventWriter writer(42, 0);
  writer.add(Fill());
  EXPECT_EQ(writer.counts().untimed, 1U);
  EXPECT_TRUE(of_category(events_of(writer), "gpu_memset").empty());
}

}  // namespace
