// SPDX-License-Identifier: Apache-2.0
#include "overlap/read/trace_json.hpp"

#include "overlap/read/json_stream.hpp"
#include "overlap/read/numbers.hpp"
#include "overlap/read/trace_keys.hpp"

#include <fmt/core.h>
#include <rapidjson/error/en.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace msstream::overlap {
namespace {

using namespace trace_keys;

int small_number(std::string_view digits) {
  auto const value = whole_number(digits);
  return value && *value >= 0 && *value <= std::numeric_limits<int>::max()
             ? static_cast<int>(*value)
             : kUnknown;
}

/// Takes the events of RapidJSON's reader.
class Handler {
 public:
  Handler(TraceFacts& facts, std::function<void(TraceEvent const&)> const& take)
      : facts_(&facts), take_(&take) {}

  [[nodiscard]] bool is_step_trace() const noexcept { return is_step_trace_; }
  [[nodiscard]] bool is_too_deep() const noexcept { return depth_ == kMostDepth; }
  /// Returns whether the file is a list of events, of which the last one was complete.
  [[nodiscard]] bool is_behind_an_event() const noexcept {
    return depth_ == 1 && places_[0] == Place::events;
  }

  bool Null() { return true; }
  bool Bool(bool value) {
    if (meaning_.read == Read::is_nvtx) {
      event_.is_nvtx = value;
    } else if (meaning_.read == Read::is_whole_graph) {
      event_.is_whole_graph = value;
    }
    return true;
  }
  bool RawNumber(char const* digits, rapidjson::SizeType length, bool) {
    return value({digits, length});
  }
  bool String(char const* characters, rapidjson::SizeType length, bool) {
    return value({characters, length});
  }
  // Numbers come as texts.
  bool Int(int) { return true; }
  bool Uint(unsigned) { return true; }
  bool Int64(std::int64_t) { return true; }
  bool Uint64(std::uint64_t) { return true; }
  bool Double(double) { return true; }

  bool Key(char const* characters, rapidjson::SizeType length, bool) {
    std::string_view const key(characters, length);
    switch (place()) {
      case Place::arguments:
        meaning_ = meaning_of(kArgumentKeys, key);
        break;
      case Place::event:
        meaning_ = meaning_of(kEventKeys, key);
        break;
      case Place::file:
        meaning_ = meaning_of(kFileKeys, key);
        break;
      case Place::device:
        meaning_ = meaning_of(kDeviceKeys, key);
        break;
      case Place::distributed:
        meaning_ = meaning_of(kDistributedKeys, key);
        break;
      case Place::recorder:
        meaning_ = meaning_of(kRecorderKeys, key);
        break;
      default:
        break;
    }
    return true;
  }

  bool StartObject() {
    auto next = Place::skipped;
    if (depth_ == 0) {
      next = Place::file;
    } else if (place() == Place::events) {
      next = Place::event;
      event_.clear();
    } else if (place() == Place::devices) {
      next = Place::device;
      facts_->devices.emplace_back();
    } else if (place() == Place::event && meaning_.read == Read::arguments) {
      next = Place::arguments;
    } else if (place() == Place::file && meaning_.read == Read::distributed) {
      next = Place::distributed;
    } else if (place() == Place::file && meaning_.read == Read::recorder) {
      next = Place::recorder;
      facts_->is_of_recorder = true;
    }
    return enter(next);
  }
  bool EndObject(rapidjson::SizeType) {
    if (place() == Place::event) {
      (*take_)(event_);
    }
    return leave();
  }
  bool StartArray() {
    auto next = Place::skipped;
    if (depth_ == 0 || (place() == Place::file && meaning_.read == Read::events)) {
      next = Place::events;
      facts_->has_events = true;
    } else if (place() == Place::file && meaning_.read == Read::devices) {
      next = Place::devices;
    } else if ((place() == Place::file || place() == Place::recorder) &&
               meaning_.read == Read::notes) {
      meaning_.read = Read::note;
      next = Place::list;
    } else if (place() == Place::arguments &&
               (meaning_.read == Read::grid || meaning_.read == Read::block ||
                meaning_.read == Read::cluster)) {
      next = Place::list;
      element_ = 0;
    }
    return enter(next);
  }
  bool EndArray(rapidjson::SizeType) { return leave(); }

 private:
  // RapidJSON calls itself for each object inside another one.
  static constexpr std::size_t kMostDepth = 200;

  [[nodiscard]] Place place() const { return depth_ == 0 ? Place::skipped : places_[depth_ - 1]; }
  bool enter(Place next) {
    if (depth_ == kMostDepth) {
      return false;
    }
    places_[depth_++] = next;
    if (next != Place::list) {
      meaning_ = {};
    }
    return true;
  }
  bool leave() {
    --depth_;
    meaning_ = {};
    return true;
  }

  bool value(std::string_view value) {
    switch (place()) {
      case Place::event:
      case Place::arguments:
        event_value(value);
        return true;
      case Place::list:
        list_value(value);
        return true;
      case Place::file:
      case Place::distributed:
        file_value(value);
        return !is_step_trace_;
      case Place::recorder:
        if (meaning_.read == Read::recorder_version) {
          facts_->recorder_version.assign(value);
        }
        return true;
      case Place::device:
        device_value(facts_->devices.back(), value);
        return true;
      default:
        return true;
    }
  }

  void event_value(std::string_view value) {
    switch (meaning_.read) {
      case Read::number:
        set(whole_number(value));
        break;
      case Read::microseconds:
        set(ns_of_us(value));
        break;
      case Read::text:
        event_.texts[static_cast<std::size_t>(meaning_.text)].assign(value);
        break;
      case Read::process:
        process_value(value);
        break;
      case Read::phase:
        event_.phase = value.size() == 1 ? value.front() : '\0';
        break;
      case Read::category:
        event_.category = category_of(value);
        break;
      case Read::blocks_per_sm:
        std::from_chars(value.data(), value.data() + value.size(), event_.blocks_per_sm);
        break;
      default:
        break;
    }
  }
  /// Takes the number of a process. Files that were merged have texts, such as "[TP01] 4711".
  void process_value(std::string_view value) {
    auto const number = whole_number(value);
    set(number);
    if (number) {
      return;
    }
    constexpr std::string_view digits = "0123456789";
    auto const last = value.find_last_not_of(digits);
    if (last == std::string_view::npos || last + 1 == value.size()) {
      return;
    }
    auto const label = value.substr(0, last + 1);
    if (label.find_first_of(digits) != std::string_view::npos) {
      set(whole_number(value.substr(last + 1)));
      event_.texts[static_cast<std::size_t>(Text::process)].assign(label);
    }
  }
  void set(std::optional<std::int64_t> number) {
    if (number) {
      event_.numbers[static_cast<std::size_t>(meaning_.field)] = *number;
    }
  }

  void list_value(std::string_view value) {
    if (meaning_.read == Read::note) {
      facts_->notes.emplace_back(value);
      return;
    }
    auto& list = meaning_.read == Read::grid    ? event_.grid
                 : meaning_.read == Read::block ? event_.block
                                                : event_.cluster;
    if (element_ < list.size()) {
      list[element_++] = small_number(value);
    }
  }

  void file_value(std::string_view value) {
    switch (meaning_.read) {
      case Read::base_ns:
        facts_->base_ns = whole_number(value);
        break;
      case Read::schema:
        facts_->schema.assign(value);
        break;
      case Read::format:
        facts_->format.assign(value);
        is_step_trace_ = value == kStepTraceFormat;
        break;
      case Read::document:
        facts_->document.assign(value);
        break;
      case Read::program:
        facts_->program.assign(value);
        break;
      case Read::rank:
        facts_->rank = small_number(value);
        break;
      case Read::ranks:
        facts_->ranks = small_number(value);
        break;
      default:
        break;
    }
  }

  void device_value(Device& device, std::string_view value) const {
    switch (meaning_.read) {
      case Read::device_number:
        device.number = small_number(value);
        break;
      case Read::device_name:
        device.name.assign(value);
        break;
      case Read::device_major:
        device.major = small_number(value);
        break;
      case Read::device_minor:
        device.minor = small_number(value);
        break;
      case Read::device_sms:
        device.sms = small_number(value);
        break;
      case Read::device_threads:
        device.threads_per_sm = small_number(value);
        break;
      case Read::device_blocks:
        device.blocks_per_sm = small_number(value);
        break;
      case Read::device_registers:
        device.registers_per_sm = small_number(value);
        break;
      case Read::device_shared:
        device.shared_bytes_per_sm = small_number(value);
        break;
      default:
        break;
    }
  }

  TraceFacts* facts_;
  std::function<void(TraceEvent const&)> const* take_;
  TraceEvent event_;
  KeyMeaning meaning_;
  std::array<Place, kMostDepth> places_{};
  std::size_t depth_ = 0;
  std::size_t element_ = 0;
  bool is_step_trace_ = false;
};

}  // namespace

TraceFacts read_trace_json(ByteSource& source, std::function<void(TraceEvent const&)> const& take) {
  TraceFacts facts;
  Handler handler(facts, take);
  JsonStream::Input input(source);
  JsonStream stream(input);
  rapidjson::Reader reader;
  auto const result = reader.Parse<kTraceJson>(stream, handler);
  if (!result.IsError() || handler.is_step_trace()) {
    return facts;
  }
  if (input.is_at_end && handler.is_behind_an_event()) {
    facts.notes.emplace_back(
        "the list of events has no end: the program that wrote it may have been killed");
    return facts;
  }
  if (handler.is_too_deep()) {
    throw std::runtime_error(fmt::format("{}: no trace: JSON that is nested too deeply, at byte {}",
                                         source.name(),
                                         result.Offset()));
  }
  throw std::runtime_error(fmt::format("{}: {} JSON at byte {}{}: {}",
                                       source.name(),
                                       input.is_at_end ? "truncated" : "broken",
                                       result.Offset(),
                                       source.is_gzipped() ? " of the decompressed file" : "",
                                       rapidjson::GetParseError_En(result.Code())));
}

}  // namespace msstream::overlap
