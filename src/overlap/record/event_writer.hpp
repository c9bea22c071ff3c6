// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/record/happening.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace msstream::overlap::record {

/// Writes what happened as events of Chrome Trace JSON, with the field names of PyTorch's profiler
/// (Kineto). For use by one thread.
///
/// Waits for events name the call that recorded the event, which may arrive later than the wait:
/// they are kept until settle() finds it, or was called twice. Driver calls inside a runtime call
/// are left out: they are kept until the next runtime call of their thread arrives, or until
/// settle() was called twice.
class EventWriter {
 public:
  /// Begins the events of process `pid`. `base` is the time that is written as 0.
  EventWriter(std::int64_t pid, std::int64_t base);

  /// Leaves whole graphs out whose launch is not recorded. CUPTI records all graphs, but calls, and
  /// with them kernels and copies, only in windows: work belongs to the window of its launch, even
  /// if it runs later.
  void take_graphs_of_calls_alone() { graphs_need_calls_ = true; }
  void add(Kernel const& kernel);
  void add(Copy const& copy);
  void add(Fill const& fill);
  void add(WholeGraph const& graph);
  void add(ApiCall const& call);
  void add(Synchronisation const& synchronisation);
  void add(EventRecorded const& recorded);
  void add(OverheadSpan const& overhead);
  void add(StreamMade const& stream);
  void add(ContextMade const& context);
  void add(NamedRange const& range);
  void add(DeviceFacts const& device);
  void name_thread(std::uint32_t thread, std::string_view name);

  /// Writes what was kept. With `all`, everything, as no more will arrive.
  void settle(bool all);

  /// Returns the events so far, each preceded by a comma and a line break, and forgets them.
  [[nodiscard]] std::string take();
  [[nodiscard]] std::size_t bytes() const noexcept { return text_.size(); }

  struct Counts {
    std::uint64_t events = 0;
    std::uint64_t activities = 0;  ///< kernels, copies, fills, graphs
    std::uint64_t calls = 0;
    std::uint64_t untimed = 0;  ///< work without times, which is left out
    std::int64_t overhead_ns = 0;
  };
  [[nodiscard]] Counts const& counts() const noexcept { return counts_; }

 private:
  struct Recorded {
    std::uint32_t stream = 0;
    std::uint32_t correlation = 0;
  };
  struct KeptCall {
    ApiCall call;  ///< its name has static storage
    int settled = 0;
  };
  struct KeptGraph {
    WholeGraph graph;
    int settled = 0;
  };
  struct KeptWait {
    Synchronisation wait;
    int settled = 0;
  };
  struct Limits {
    int sms = 0;
    int warp = 32;
  };

  void open(std::string_view phase_and_category, std::string_view name);
  void at(std::int64_t pid, std::int64_t tid, Time time);
  void work_fields(Work const& work);
  void close_work(Work const& work);
  bool begin_work(Work const& work);
  void announce(Place const& place);
  void write(ApiCall const& call);
  void write(Synchronisation const& wait);
  void write(WholeGraph const& graph);
  void write_graphs(bool all);
  void write_recordings();
  void write_waits(bool all, bool settling);
  [[nodiscard]] Recorded const* recording_of(Synchronisation const& wait) const;
  void metadata(std::string_view name, std::int64_t pid, std::int64_t tid, std::string_view args);
  void flow(char phase, std::int64_t pid, std::int64_t tid, std::int64_t time, std::uint32_t id);
  [[nodiscard]] std::int64_t device_of(std::uint32_t context) const;
  std::string const& name_of(std::string_view mangled);

  std::int64_t pid_;
  std::int64_t base_;
  bool graphs_need_calls_ = false;
  std::vector<KeptGraph> graphs_;                  ///< whose calls have not arrived
  std::unordered_set<std::uint32_t> graph_calls_;  ///< whose graphs have not arrived
  std::string text_;
  Counts counts_;
  std::unordered_map<std::string, std::string> names_;  ///< of kernels, quoted, by mangled name
  std::unordered_map<std::uint64_t, bool> announced_;   ///< streams by device and number
  std::unordered_map<std::uint32_t, std::uint32_t> devices_;    ///< by context
  std::unordered_map<std::uint32_t, std::int32_t> priorities_;  ///< by stream
  std::unordered_map<std::uint32_t, Limits> limits_;            ///< by device
  std::unordered_map<std::uint64_t, Recorded> by_sync_;
  /// The last recordings of each event, by context and event: older CUPTI has no other name for
  /// one.
  std::unordered_map<std::uint64_t, std::deque<Recorded>> by_event_;
  std::deque<std::uint64_t> sync_order_;  ///< of by_sync_, oldest first
  std::vector<KeptWait> waits_;
  std::vector<EventRecorded> recordings_;
  std::unordered_map<std::uint32_t, std::vector<KeptCall>> kept_calls_;  ///< by thread
};

}  // namespace msstream::overlap::record
