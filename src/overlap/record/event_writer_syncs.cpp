// SPDX-License-Identifier: Apache-2.0
// Synchronisations, and the recordings of events that they wait for.
#include "overlap/record/event_writer.hpp"
#include "overlap/record/json_text.hpp"

namespace msstream::overlap::record {

namespace {

constexpr std::uint32_t kNoStream = 0xFFFFFFFFU;
constexpr std::size_t kRememberedRecordings = std::size_t{1} << 18U;
constexpr std::size_t kRecordingsOfAnEvent = 16;
constexpr std::size_t kKeptRecordings = 4'096;

constexpr std::uint64_t event_of(std::uint32_t context, std::uint32_t event) {
  return (std::uint64_t{context} << 32U) | event;
}

std::string_view waiting_name(Waiting kind) {
  switch (kind) {
    case Waiting::event:
      return "Event Sync";
    case Waiting::stream_for_event:
      return "Stream Wait Event";
    case Waiting::stream:
      return "Stream Sync";
    case Waiting::context:
      break;
  }
  return "Context Sync";
}

std::int64_t stream_number(std::uint32_t stream) {
  return stream == kNoStream ? -1 : std::int64_t{stream};
}

}  // namespace

void EventWriter::add(Synchronisation const& synchronisation) {
  if (synchronisation.kind == Waiting::event || synchronisation.kind == Waiting::stream_for_event) {
    waits_.push_back({synchronisation, 0});
  } else {
    write(synchronisation);
  }
}

void EventWriter::add(EventRecorded const& recorded) {
  Recorded const entry{recorded.place.stream, recorded.correlation};
  if (recorded.has_device) {
    devices_[recorded.place.context] = recorded.place.device;
  }
  if (recorded.event_sync != 0) {
    if (sync_order_.size() >= kRememberedRecordings) {
      by_sync_.erase(sync_order_.front());
      sync_order_.pop_front();
    }
    by_sync_[recorded.event_sync] = entry;
    sync_order_.push_back(recorded.event_sync);
  } else {
    if (by_event_.size() >= kRememberedRecordings) {
      by_event_.clear();
    }
    auto& history = by_event_[event_of(recorded.place.context, recorded.event)];
    if (history.size() >= kRecordingsOfAnEvent) {
      history.pop_front();
    }
    history.push_back(entry);
  }
  recordings_.push_back(recorded);
  if (recordings_.size() >= kKeptRecordings) {
    write_recordings();
    write_waits(false, false);
  }
}

EventWriter::Recorded const* EventWriter::recording_of(Synchronisation const& wait) const {
  if (wait.event_sync != 0) {
    auto const found = by_sync_.find(wait.event_sync);
    return found == by_sync_.end() ? nullptr : &found->second;
  }
  Recorded const* last = nullptr;
  if (auto const found = by_event_.find(event_of(wait.context, wait.event));
      found != by_event_.end()) {
    // Correlations grow with each call: the last recording before the wait is the one meant.
    for (Recorded const& recorded : found->second) {
      if (recorded.correlation < wait.correlation &&
          (last == nullptr || recorded.correlation > last->correlation)) {
        last = &recorded;
      }
    }
  }
  return last;
}

void EventWriter::write(Synchronisation const& wait) {
  std::int64_t const device = device_of(wait.context);
  std::int64_t const stream = stream_number(wait.stream);
  std::string name;
  JsonText(name).quoted(waiting_name(wait.kind));
  open("cuda_sync", name);
  at(device, stream, wait.time);
  JsonText text(text_);
  text.raw("\"cuda_sync_kind\": ").raw(name);
  if (wait.kind == Waiting::event || wait.kind == Waiting::stream_for_event) {
    Recorded const* const source = recording_of(wait);
    text.raw(", \"wait_on_stream\": ")
        .number(source == nullptr ? std::int64_t{-1} : std::int64_t{source->stream})
        .raw(", \"wait_on_cuda_event_record_corr_id\": ")
        .number(source == nullptr ? std::int64_t{-1} : std::int64_t{source->correlation})
        .raw(", \"wait_on_cuda_event_id\": ")
        .number(wait.event);
    if (wait.event_sync != 0) {
      text.raw(", \"wait_on_cuda_event_sync_id\": ").number(wait.event_sync);
    }
  }
  text.raw(", \"stream\": ")
      .number(stream)
      .raw(", \"correlation\": ")
      .number(wait.correlation)
      .raw(", \"device\": ")
      .number(device)
      .raw(", \"context\": ")
      .number(wait.context)
      .raw("}}");
}

void EventWriter::write_recordings() {
  for (EventRecorded const& recorded : recordings_) {
    std::int64_t const device = device_of(recorded.place.context);
    std::string args;
    JsonText text(args);
    text.raw("\"device\": ")
        .number(device)
        .raw(", \"context\": ")
        .number(recorded.place.context)
        .raw(", \"stream\": ")
        .number(recorded.place.stream)
        .raw(", \"correlation\": ")
        .number(recorded.correlation)
        .raw(", \"event\": ")
        .number(recorded.event);
    if (recorded.event_sync != 0) {
      text.raw(", \"event sync\": ").number(recorded.event_sync);
    }
    metadata("cuda_event_record", device, recorded.place.stream, args);
  }
  recordings_.clear();
}

void EventWriter::write_waits(bool all, bool settling) {
  std::size_t left = 0;
  for (KeptWait& kept : waits_) {
    kept.settled += settling ? 1 : 0;
    // Without the number of a recording, a later recording may still arrive.
    bool const found = kept.wait.event_sync != 0 && recording_of(kept.wait) != nullptr;
    if (all || found || kept.settled > 1) {
      write(kept.wait);
    } else {
      waits_[left++] = kept;
    }
  }
  waits_.resize(left);
}

}  // namespace msstream::overlap::record
