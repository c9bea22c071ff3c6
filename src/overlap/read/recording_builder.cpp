// SPDX-License-Identifier: Apache-2.0
#include "overlap/read/recording_builder.hpp"

#include "overlap/read/call_names.hpp"
#include "overlap/recording/duration_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>

namespace msstream::overlap {
namespace {

template <class Map, class Key, class Element>
Index place_of(Map& map, Key const& key, std::vector<Element>& elements, Element element) {
  auto const [at, is_new] = map.emplace(key, static_cast<Index>(elements.size()));
  if (is_new) {
    elements.push_back(std::move(element));
  }
  return at->second;
}

}  // namespace

Index RecordingBuilder::device(int number) {
  Device device;
  device.number = number;
  return place_of(devices_, number, recording_.devices, std::move(device));
}

Index RecordingBuilder::stream(int device, std::int64_t context, std::int64_t number) {
  Stream stream;
  stream.device = this->device(device);
  stream.context = context;
  stream.number = number;
  return place_of(streams_, std::tuple(device, number, context), recording_.streams, stream);
}

Index RecordingBuilder::find_stream(int device, std::int64_t number) const {
  constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
  auto const at = streams_.lower_bound({device, number, lowest});
  if (at == streams_.end() || std::get<0>(at->first) != device ||
      std::get<1>(at->first) != number) {
    return kNone;
  }
  return at->second;
}

Index RecordingBuilder::thread(std::int64_t process, std::int64_t number) {
  return place_of(
      threads_, std::pair(process, number), recording_.threads, Thread{process, number, 0});
}

Index RecordingBuilder::shape(LaunchShape const& shape) {
  std::tuple const key(
      shape.grid, shape.block, shape.cluster, shape.registers_per_thread, shape.shared_bytes);
  return place_of(shapes_, key, recording_.shapes, shape);
}

std::string RecordingBuilder::backwards_text() const {
  return backwards_.text("record ends before it begins, and was left out",
                         "records end before they begin, and were left out");
}

void RecordingBuilder::add(Activity const& activity, Correlation correlation) {
  if (is_backwards(activity.time, [&] {
        return fmt::format("{} on {}, of correlation {}",
                           recording_.names[activity.name],
                           recording_.text_of_stream(recording_.streams[activity.stream]),
                           correlation);
      })) {
    return;
  }
  recording_.activities.push_back(activity);
  issued_by_.push_back(correlation);
}

void RecordingBuilder::add_call(Interval time,
                                std::string_view name,
                                Index thread,
                                Correlation correlation,
                                std::string_view code) {
  if (is_backwards(time,
                   [&] { return fmt::format("{}(), of correlation {}", name, correlation); })) {
    return;
  }
  auto found = call_names_.find(name);
  if (found == call_names_.end()) {
    auto const understood = understand_call(name);
    found = call_names_
                .emplace(std::string(name),
                         NamedCall{this->name(understood.name),
                                   understood.kind,
                                   understood.is_driver,
                                   understood.sync})
                .first;
  }
  auto const& named = found->second;
  auto const made_by = code.empty() ? NameId{0} : this->name(code);
  recording_.calls.push_back({time, named.name, thread, named.kind, made_by});
  call_facts_.push_back({correlation, named.is_driver, named.sync});
}

void RecordingBuilder::add(Sync const& sync,
                           Correlation correlation,
                           std::optional<RecordedEvent> const& recorded) {
  if (sync.kind != SyncKind::wait && is_backwards(sync.time, [&] {
        return fmt::format("a synchronisation, of correlation {}", correlation);
      })) {
    return;
  }
  recording_.syncs.push_back(sync);
  recording_.syncs.back().time.end = std::max(sync.time.begin, sync.time.end);
  pending_syncs_.push_back({correlation, recorded ? recorded->record : 0});
  if (recorded) {
    recording_.syncs.back().record_stream = recorded->stream;
    if (recorded->record > 0) {
      records_.push_back(*recorded);
      records_.back().is_guess = true;
    }
  }
}

void RecordingBuilder::add(Overhead const& overhead) {
  if (is_backwards(overhead.time, [&] {
        return fmt::format("the overhead {}", recording_.names[overhead.name]);
      })) {
    return;
  }
  recording_.overheads.push_back(overhead);
}

void RecordingBuilder::add(Range const& range) {
  if (is_backwards(range.time,
                   [&] { return fmt::format("the range {}", recording_.names[range.name]); })) {
    return;
  }
  recording_.ranges.push_back(range);
}

/// Removes driver calls that a runtime call of the same thread made. Their correlations then name
/// the runtime call.
void RecordingBuilder::leave_out_inner_calls() {
  auto& calls = recording_.calls;
  std::vector<Index> order(calls.size());
  std::iota(order.begin(), order.end(), Index{0});
  auto const key = [&](Index i) {
    return std::tuple(
        calls[i].thread, calls[i].time.begin, call_facts_[i].is_driver, -calls[i].time.end, i);
  };
  std::ranges::sort(order, {}, key);
  std::vector<Index> outer_of(calls.size(), kNone);
  Index outer = kNone;
  for (auto const i : order) {
    auto const& call = calls[i];
    if (!call_facts_[i].is_driver) {
      // If one runtime call is inside another, the outer one counts.
      if (outer == kNone || calls[outer].thread != call.thread ||
          calls[outer].time.end <= call.time.begin || calls[outer].time.end < call.time.end) {
        outer = i;
      }
    } else if (outer != kNone && calls[outer].thread == call.thread &&
               call.time.begin < calls[outer].time.end && call.time.end <= calls[outer].time.end) {
      outer_of[i] = outer;
    }
  }
  std::vector<Index> places(calls.size());
  Index kept = 0;
  for (Index i = 0; i < calls.size(); ++i) {
    if (outer_of[i] == kNone) {
      places[i] = kept;
      calls[kept] = calls[i];
      ++kept;
    }
  }
  calls_by_correlation_.reserve(calls.size());
  std::vector<CallFacts> kept_facts;
  kept_facts.reserve(kept);
  for (Index i = 0; i < outer_of.size(); ++i) {
    auto const place = places[outer_of[i] == kNone ? i : outer_of[i]];
    if (call_facts_[i].correlation > 0) {
      calls_by_correlation_.emplace_back(call_facts_[i].correlation, place);
    }
    if (outer_of[i] == kNone) {
      kept_facts.push_back(call_facts_[i]);
    }
  }
  calls.resize(kept);
  call_facts_ = std::move(kept_facts);
  std::ranges::sort(calls_by_correlation_);
}

Index RecordingBuilder::call_of(Correlation correlation) const {
  if (correlation <= 0) {
    return kNone;
  }
  auto const at = std::ranges::lower_bound(calls_by_correlation_, Correlated{correlation, 0});
  return at == calls_by_correlation_.end() || at->first != correlation ? kNone : at->second;
}

void RecordingBuilder::join() {
  for (std::size_t i = 0; i < recording_.activities.size(); ++i) {
    recording_.activities[i].call = call_of(issued_by_[i]);
  }
  if (!recording_.calls.empty() &&
      std::ranges::all_of(issued_by_, [](Correlation correlation) { return correlation <= 0; })) {
    recording_.notes.emplace_back(
        "no work has the correlation of a call, so that it cannot be told which call issued it, "
        "and "
        "causes of the host are not found");
  }
  find_recorded_streams();
  std::vector<bool> has_sync(recording_.calls.size());
  for (std::size_t i = 0; i < recording_.syncs.size(); ++i) {
    auto& sync = recording_.syncs[i];
    sync.call = call_of(pending_syncs_[i].correlation);
    sync.record_call = call_of(pending_syncs_[i].record);
    if (sync.call != kNone) {
      has_sync[sync.call] = true;
      // Some versions of the tools number the kinds otherwise; the name of the call is certain.
      sync.kind = call_facts_[sync.call].sync.value_or(sync.kind);
    }
  }
  for (Index i = 0; i < recording_.calls.size(); ++i) {
    if (call_facts_[i].sync && !has_sync[i]) {
      Sync sync;
      sync.time = recording_.calls[i].time;
      sync.kind = *call_facts_[i].sync;
      sync.call = i;
      recording_.syncs.push_back(sync);
    }
  }
  std::vector<bool> has_record(recording_.calls.size());
  for (auto const& record : records_) {
    auto const call = call_of(record.record);
    if (call != kNone && !has_record[call]) {
      has_record[call] = true;
      recording_.event_records.push_back({call, record.stream, record.event});
    }
  }
  add_missing_calls();
}

/// Finds the streams in which awaited events were recorded: waits name them without their devices,
/// and those of other devices may have equal numbers.
void RecordingBuilder::find_recorded_streams() {
  std::ranges::stable_sort(records_, {}, &RecordedEvent::is_guess);
  std::unordered_map<Correlation, Index> recorded_in;
  for (auto const& record : records_) {
    if (!record.is_guess) {
      recorded_in.emplace(record.record, record.stream);
    }
  }
  std::vector<bool> works(recording_.streams.size());
  std::unordered_map<std::int64_t, Index> by_number;  // streams with work; kNone for several
  for (auto const& activity : recording_.activities) {
    works[activity.stream] = true;
  }
  for (Index i = 0; i < works.size(); ++i) {
    if (works[i]) {
      auto const [at, is_new] = by_number.emplace(recording_.streams[i].number, i);
      at->second = is_new ? i : kNone;
    }
  }
  auto const find = [&](Index stream, Correlation record) {
    if (auto const known = recorded_in.find(record); known != recorded_in.end()) {
      return known->second;
    }
    if (stream == kNone || works[stream]) {
      return stream;
    }
    auto const other = by_number.find(recording_.streams[stream].number);
    return other == by_number.end() || other->second == kNone ? stream : other->second;
  };
  // Some files have contexts for waits and none for work, or the other way round.
  auto const with_work = [&](Index stream) {
    if (stream == kNone || works[stream]) {
      return stream;
    }
    auto const& own = recording_.streams[stream];
    auto const other = by_number.find(own.number);
    if (other == by_number.end() || other->second == kNone) {
      return stream;
    }
    auto const& found = recording_.streams[other->second];
    bool const lacks_context = (own.context == kUnknown) != (found.context == kUnknown);
    return lacks_context && own.device == found.device ? other->second : stream;
  };
  for (std::size_t i = 0; i < recording_.syncs.size(); ++i) {
    recording_.syncs[i].stream = with_work(recording_.syncs[i].stream);
    auto& stream = recording_.syncs[i].record_stream;
    stream = find(stream, pending_syncs_[i].record);
  }
  for (auto& record : records_) {
    record.stream = find(record.stream, record.record);
  }
}

/// Libraries launch some kernels by calls that tools do not record. Correlations count the calls in
/// the order in which they begin: such a call was made between its two neighbours. It gets no
/// length, and a place in the middle between them, before its work begins.
void RecordingBuilder::add_missing_calls() {
  std::vector<Correlated> missing;
  for (Index i = 0; i < recording_.activities.size(); ++i) {
    auto const& activity = recording_.activities[i];
    if (activity.call == kNone && issued_by_[i] > 0 && activity.graph == kUnknown &&
        !activity.is_graph_node && activity.kind != ActivityKind::graph) {
      missing.emplace_back(issued_by_[i], i);
    }
  }
  std::ranges::sort(missing);
  NameId name = 0;
  std::size_t added = 0;
  for (std::size_t first = 0; first < missing.size();) {
    // The range [first, last) is missing between two recorded calls.
    auto const after =
        std::ranges::upper_bound(calls_by_correlation_, Correlated{missing[first].first, kNone});
    auto last = first;
    while (last < missing.size() &&
           (after == calls_by_correlation_.end() || missing[last].first < after->first)) {
      ++last;
    }
    bool const is_between =
        after != calls_by_correlation_.begin() && after != calls_by_correlation_.end();
    if (is_between) {
      auto const before = recording_.calls[(after - 1)->second];
      auto const next = recording_.calls[after->second].time.begin;
      auto const parts = static_cast<Ns>(last - first) + 1;
      for (auto at = first; at < last; ++at) {
        auto& activity = recording_.activities[missing[at].second];
        auto const part = static_cast<Ns>(at - first) + 1;
        auto const time = std::min(before.time.end + (next - before.time.end) / parts * part,
                                   activity.time.begin);
        if (next < before.time.end || time < before.time.end) {
          continue;  // of several threads at once, or of a source that numbers otherwise
        }
        if (added == 0) {
          name = this->name("launch (not recorded)");
        }
        ++added;
        activity.call = static_cast<Index>(recording_.calls.size());
        auto const kind = activity.kind == ActivityKind::copy   ? CallKind::copy
                          : activity.kind == ActivityKind::fill ? CallKind::fill
                                                                : CallKind::launch;
        recording_.calls.push_back({{time, time}, name, before.thread, kind});
      }
    }
    first = last;
  }
  if (added > 0) {
    recording_.notes.push_back(fmt::format(
        "The trace lacks the calls that issued {}; they count as made between the calls before and "
        "after them.",
        count_text(added, "activity", "activities")));
  }
}

void RecordingBuilder::find_clock_step() {
  constexpr Ns us = 1'000;
  auto const is_whole = [](auto const& element) {
    return element.time.begin % us == 0 && element.time.end % us == 0;
  };
  bool const rounded = std::ranges::all_of(recording_.activities, is_whole) &&
                       std::ranges::all_of(recording_.calls, is_whole);
  recording_.clock_step = rounded ? us : 1;
}

Ns RecordingBuilder::first_time() const {
  Ns first = std::numeric_limits<Ns>::max();
  auto const look_at = [&first](auto const& elements) {
    for (auto const& element : elements) {
      first = std::min(first, element.time.begin);
    }
  };
  look_at(recording_.activities);
  look_at(recording_.calls);
  look_at(recording_.syncs);
  look_at(recording_.overheads);
  look_at(recording_.ranges);
  return first == std::numeric_limits<Ns>::max() ? 0 : first;
}

Recording RecordingBuilder::finish(std::optional<std::int64_t> unix_ns, std::optional<Ns> zero) {
  leave_out_inner_calls();
  join();
  auto const first = zero.value_or(first_time());
  auto const let_begin_at_zero = [first](auto& elements) {
    for (auto& element : elements) {
      element.time.begin -= first;
      element.time.end -= first;
    }
  };
  let_begin_at_zero(recording_.activities);
  let_begin_at_zero(recording_.calls);
  let_begin_at_zero(recording_.syncs);
  let_begin_at_zero(recording_.overheads);
  let_begin_at_zero(recording_.ranges);
  if (unix_ns && (*unix_ns >= 0 ? first <= std::numeric_limits<Ns>::max() - *unix_ns
                                : first >= std::numeric_limits<Ns>::min() - *unix_ns)) {
    recording_.start_unix_ns = *unix_ns + first;
  }
  if (backwards_.any()) {
    recording_.notes.push_back(backwards_text());
  }
  recording_.sort();
  if (auto const duplicates = recording_.leave_out_duplicates(); duplicates != 0) {
    recording_.notes.push_back(count_text(duplicates,
                                          "event was in the file twice, and counts once",
                                          "events were in the file twice, and count once"));
  }
  return std::move(recording_);
}

}  // namespace msstream::overlap
