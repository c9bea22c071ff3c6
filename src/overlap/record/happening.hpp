// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// The records of a program as the recorder writes them, without CUPTI's types, so that
/// their conversion to JSON can be tested without it. Times are ns of the clock of the recording.
namespace msstream::overlap::record {

/// The device, context and stream of work, by CUPTI's numbers.
struct Place {
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
};

struct Time {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// The fields that all records of work on a device have.
struct Work {
  Time time;
  Place place;
  std::uint32_t correlation = 0;  ///< equal to that of the call that issued it
  std::uint32_t graph = 0;        ///< 0 if it is no node of a CUDA graph
  std::uint64_t graph_node = 0;
  std::uint32_t channel = 0;  ///< the hardware queue
  int channel_type = 0;       ///< CUPTI's; 0 if the channel is unknown
};

struct Kernel {
  Work work;
  std::string_view name;  ///< as the compiler wrote it
  std::array<std::int32_t, 3> grid{};
  std::array<std::int32_t, 3> block{};
  std::array<std::uint32_t, 3> cluster{};  ///< zeros without clusters
  int registers_per_thread = 0;
  std::int64_t shared_bytes = 0;
};

struct Copy {
  Work work;
  int direction = 0;  ///< CUPTI's kind of copy
  int source = 0;     ///< CUPTI's kind of memory
  int target = 0;
  std::uint64_t bytes = 0;
  /// The devices of both ends; empty unless the copy is between devices.
  std::optional<std::array<std::uint32_t, 2>> peers;
};

struct Fill {
  Work work;
  int target = 0;  ///< CUPTI's kind of memory
  std::uint64_t bytes = 0;
};

/// A CUDA graph that was recorded as a whole.
struct WholeGraph {
  Work work;
};

struct ApiCall {
  Time time;
  std::string_view name;  ///< without a version
  bool of_driver = false;
  std::uint32_t thread = 0;
  std::uint32_t correlation = 0;
  std::uint32_t number = 0;  ///< CUPTI's number of the function
  std::uint32_t result = 0;
};

enum class Waiting : std::uint8_t { event, stream_for_event, stream, context };

struct Synchronisation {
  Time time;
  Waiting kind = Waiting::context;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;  ///< 0xFFFFFFFF if it is none of a stream
  std::uint32_t correlation = 0;
  std::uint32_t event = 0;
  std::uint64_t event_sync = 0;  ///< names one recording of the event; 0 if CUPTI does not tell
};

/// The recording of an event in a stream.
struct EventRecorded {
  Place place;
  bool has_device = false;  ///< whether `place.device` is known
  std::uint32_t correlation = 0;
  std::uint32_t event = 0;
  std::uint64_t event_sync = 0;
};

struct OverheadSpan {
  Time time;
  std::uint32_t kind = 0;  ///< CUPTI's
  std::uint32_t thread = 0;
};

struct StreamMade {
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::int32_t priority = 0;
  int flag = 0;  ///< CUPTI's
};

struct ContextMade {
  std::uint32_t context = 0;
  std::uint32_t device = 0;
  std::uint32_t null_stream = 0;
};

/// An NVTX range of a thread. `end` is that of the recording if it was still open.
struct NamedRange {
  Time time;
  std::string_view name;
  std::string_view domain;
  std::uint32_t thread = 0;
  bool of_process = false;  ///< made by nvtxRangeStart(): may begin and end in different threads
};

struct DeviceFacts {
  int number = 0;
  std::string name;
  std::uint64_t memory_bytes = 0;
  int major = 0;
  int minor = 0;
  int max_threads_per_block = 0;
  int threads_per_sm = 0;
  int blocks_per_sm = 0;
  int registers_per_block = 0;
  int registers_per_sm = 0;
  int warp = 0;
  int shared_per_block = 0;
  int shared_per_sm = 0;
  int shared_per_block_optin = 0;
  int sms = 0;
  int copy_engines = 0;
};

}  // namespace msstream::overlap::record
