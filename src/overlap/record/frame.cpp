// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/frame.hpp"

#include "overlap/record/json_text.hpp"

#include <time.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>

namespace msstream::overlap::record {

namespace {

constexpr int kFormatVersion = 1;

std::int64_t read_clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::optional<int> first_number_of(std::initializer_list<char const*> variables) {
  for (char const* const variable : variables) {
    char const* const text = std::getenv(variable);
    if (text == nullptr) {
      continue;
    }
    std::string_view const digits = text;
    int number = 0;
    auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc() && end == digits.data() + digits.size() && number >= 0) {
      return number;
    }
  }
  return {};
}

template <class Items, class Write>
void list(JsonText& text, Items const& items, Write write) {
  text.raw("[");
  char const* separator = "";
  for (auto const& item : items) {
    text.raw(std::exchange(separator, ", "));
    write(item);
  }
  text.raw("]");
}

void write_device(JsonText& text, DeviceFacts const& device) {
  auto const field = [&text](std::string_view name, auto value) {
    text.raw(", \"").raw(name).raw("\": ").number(value);
  };
  text.raw("\n  {\"id\": ").number(device.number).raw(", \"name\": ").quoted(device.name);
  field("totalGlobalMem", device.memory_bytes);
  field("computeMajor", device.major);
  field("computeMinor", device.minor);
  field("maxThreadsPerBlock", device.max_threads_per_block);
  field("maxThreadsPerMultiprocessor", device.threads_per_sm);
  field("regsPerBlock", device.registers_per_block);
  field("warpSize", device.warp);
  field("sharedMemPerBlock", device.shared_per_block);
  field("numSms", device.sms);
  field("regsPerMultiprocessor", device.registers_per_sm);
  field("sharedMemPerBlockOptin", device.shared_per_block_optin);
  field("sharedMemPerMultiprocessor", device.shared_per_sm);
  field("maxBlocksPerMultiprocessor", device.blocks_per_sm);
  field("asyncEngineCount", device.copy_engines);
  text.raw("}");
}

void write_moment(JsonText& text, Moment const& moment) {
  text.raw("{\"recording_ns\": ")
      .number(moment.recording)
      .raw(", \"unix_ns\": ")
      .number(moment.unix_time)
      .raw(", \"monotonic_ns\": ")
      .number(moment.monotonic)
      .raw("}");
}

}  // namespace

void Moment::read_system_clocks() {
  unix_time = read_clock(CLOCK_REALTIME);
  monotonic = read_clock(CLOCK_MONOTONIC);
}

void Head::describe_process(int order) {
  pid = ::getpid();
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string argument;
  while (std::getline(file, argument, '\0')) {
    command.push_back(argument);
  }
  program = command.empty() ? "unknown" : command.front();
  program = program.substr(program.rfind('/') + 1);
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  host = name.data();
  auto const known = first_number_of({"RANK",
                                      "OMPI_COMM_WORLD_RANK",
                                      "PMIX_RANK",
                                      "PMI_RANK",
                                      "MV2_COMM_WORLD_RANK",
                                      "SLURM_PROCID"});
  rank_is_known = known.has_value();
  rank = known.value_or(order);
  ranks =
      first_number_of(
          {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_NTASKS"})
          .value_or(0);
}

std::string text_of(Head const& head) {
  std::string out;
  JsonText text(out);
  auto const string = [&text](std::string const& value) { text.quoted(value); };
  text.raw("{\n\"schemaVersion\": 1,\n\"deviceProperties\": ");
  list(text, head.devices, [&text](DeviceFacts const& device) { write_device(text, device); });
  // The blanks after the colons matter: HolisticTraceAnalysis searches the text for the rank.
  text.raw(",\n\"distributedInfo\": {\"rank\": ").number(head.rank);
  if (head.ranks > 0) {
    text.raw(", \"world_size\": ").number(head.ranks);
  }
  text.raw("},\n\"cupti_version\": ")
      .number(head.cupti_version)
      .raw(",\n\"cuda_driver_version\": ")
      .number(head.driver_version)
      .raw(",\n\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": ")
      .number(head.start.unix_time)
      .raw(",\n\"msstream_overlap\": {\"version\": ")
      .number(kFormatVersion)
      .raw(", \"pid\": ")
      .number(head.pid)
      .raw(", \"program\": ")
      .quoted(head.program)
      .raw(", \"command\": ");
  list(text, head.command, string);
  text.raw(", \"host\": ")
      .quoted(head.host)
      .raw(", \"rank_is_known\": ")
      .raw(head.rank_is_known ? "true" : "false")
      .raw(",\n  \"start\": ");
  write_moment(text, head.start);
  text.raw(", \"cupti\": ")
      .quoted(head.cupti)
      .raw(", \"graphs\": ")
      .quoted(head.graph_nodes ? "nodes" : "whole")
      .raw(", \"range\": ")
      .quoted(head.range)
      .raw(", \"skip_ms\": ")
      .number(head.skip_ms)
      .raw(", \"duration_ms\": ")
      .number(head.duration_ms)
      .raw(", \"memory_limit_bytes\": ")
      .number(head.memory_limit_bytes)
      .raw(", \"notes\": ");
  list(text, head.notes, string);
  text.raw(
          "},\n\"traceEvents\": [\n{\"name\": \"process_name\", \"ph\": \"M\", \"ts\": 0, "
          "\"pid\": ")
      .number(head.pid)
      .raw(", \"tid\": 0, \"args\": {\"name\": ")
      .quoted(head.program)
      .raw("}}");
  return out;
}

std::string text_of(Foot const& foot) {
  std::string out;
  JsonText text(out);
  text.raw("\n],\n\"msstream_overlap_end\": {\"complete\": ")
      .raw(foot.complete ? "true" : "false")
      .raw(", \"reason\": ")
      .quoted(foot.reason)
      .raw(", \"events\": ")
      .number(foot.counts.events)
      .raw(", \"activities\": ")
      .number(foot.counts.activities)
      .raw(", \"calls\": ")
      .number(foot.counts.calls)
      .raw(", \"dropped_records\": ")
      .number(foot.dropped_records)
      .raw(", \"activities_without_times\": ")
      .number(foot.counts.untimed)
      .raw(", \"most_buffer_bytes\": ")
      .number(foot.most_buffer_bytes)
      .raw(", \"overhead_ns\": ")
      .number(foot.counts.overhead_ns)
      .raw(", \"recorder_cpu_seconds\": ")
      .decimal(foot.recorder_cpu_seconds)
      .raw(",\n  \"end\": ");
  write_moment(text, foot.end);
  text.raw(", \"windows_ns\": ");
  list(text, foot.windows, [&text](auto const& window) {
    text.raw("[").number(window.first).raw(", ").number(window.second).raw("]");
  });
  text.raw(", \"notes\": ");
  list(text, foot.notes, [&text](std::string const& note) { text.quoted(note); });
  text.raw("}\n}\n");
  return out;
}

std::string text_of_cut_foot(std::string_view reason) {
  std::string out;
  JsonText(out)
      .raw("\n],\n\"msstream_overlap_end\": {\"complete\": false, \"reason\": ")
      .quoted(reason)
      .raw("}\n}\n");
  return out;
}

}  // namespace msstream::overlap::record
