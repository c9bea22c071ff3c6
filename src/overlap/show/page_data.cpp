// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/page_data.hpp"

#include "base/json_writer.hpp"
#include "overlap/show/colours.hpp"
#include "overlap/show/figures.hpp"
#include "overlap/show/page_columns.hpp"
#include "overlap/show/page_names.hpp"
#include "overlap/show/page_rows.hpp"
#include "overlap/show/text.hpp"
#include "overlap/show/wait_arrows.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace msstream::overlap {
namespace {

using detail::JsonWriter;

/// The number of a cause in the page: 0 for none.
std::uint64_t number_of(std::optional<Cause> cause) {
  return cause ? static_cast<std::uint64_t>(*cause) + 1 : 0;
}

class DataWriter {
 public:
  DataWriter(Explained const& explained, PageOptions const& options)
      : recording_(explained.recording),
        report_(explained.report),
        names_(recording_.names),
        rows_(explained, options.most_rows),
        json_(description_) {}

  PageData data() {
    write_activities();
    write_calls();
    write_ranges();
    write_arrows();
    write_spans();
    write_intervals();
    describe();
    PageData data;
    append_base64(data.columns, columns_.bytes());
    // `<` is only in strings, where it may be written as an escape: no text can end the element.
    for (char const character : description_) {
      if (character == '<') {
        data.description += "\\u003c";
      } else {
        data.description += character;
      }
    }
    return data;
  }

 private:
  /// Writes a column of rows: a number of each activity that the page has.
  template <class NumberOf>
  void column_of_activities(char const* name, NumberOf number_of_row) {
    columns_.begin(name);
    for (auto const& lane : rows_.lanes()) {
      for (auto const index : lane.rows) {
        columns_.put(number_of_row(index, recording_.activities[index]));
      }
    }
  }

  /// Writes begins and lengths, each begin as the difference from the one before in its lane.
  template <class Lanes, class Elements>
  void write_times(char const* begins,
                   char const* lengths,
                   Lanes const& lanes,
                   Elements const& of) {
    columns_.begin(begins);
    for (auto const& lane : lanes) {
      Ns last = report_.window.begin;
      for (auto const index : lane.rows) {
        columns_.put_signed(of[index].time.begin - last);
        last = of[index].time.begin;
      }
    }
    columns_.begin(lengths);
    for (auto const& lane : lanes) {
      for (auto const index : lane.rows) {
        columns_.put(static_cast<std::uint64_t>(std::max<Ns>(of[index].time.length(), 0)));
      }
    }
  }

  void write_activities() {
    write_times("begin", "length", rows_.lanes(), recording_.activities);
    column_of_activities("name",
                         [&](Index, Activity const& a) { return names_.number_of(a.name); });
    column_of_activities(
        "kind", [](Index, Activity const& a) { return static_cast<std::uint64_t>(kind_of(a)); });
    auto const starts = starts_of({recording_, report_});
    column_of_activities("cause",
                         [&](Index i, Activity const&) { return number_of(starts[i].cause); });
    column_of_activities("charged", [&](Index i, Activity const&) {
      return static_cast<std::uint64_t>(starts[i].charged);
    });
    column_of_activities("call", [&](Index, Activity const& a) {
      auto const place = a.call == kNone ? kNone : rows_.place_of_call(a.call);
      return place == kNone ? 0 : std::uint64_t{place} + 1;
    });
    column_of_activities("shape", [](Index, Activity const& a) {
      return a.shape == kNone ? 0 : std::uint64_t{a.shape} + 1;
    });
    column_of_activities(
        "bytes", [](Index, Activity const& a) { return static_cast<std::uint64_t>(a.bytes + 1); });
    auto const operations = operations_of(recording_);
    column_of_activities("operation", [&](Index, Activity const& a) {
      return a.call == kNone || operations[a.call] == kNone
                 ? 0
                 : names_.number_of(recording_.ranges[operations[a.call]]);
    });
  }

  void write_calls() {
    write_times("call begin", "call length", rows_.call_lanes(), recording_.calls);
    columns_.begin("call name");
    for (auto const& lane : rows_.call_lanes()) {
      for (auto const index : lane.rows) {
        columns_.put(names_.number_of(recording_.calls[index].name));
      }
    }
    columns_.begin("call kind");
    for (auto const& lane : rows_.call_lanes()) {
      for (auto const index : lane.rows) {
        columns_.put(static_cast<std::uint64_t>(recording_.calls[index].kind));
      }
    }
    auto const ranges = named_ranges_of(recording_);
    columns_.begin("call range");
    for (auto const& lane : rows_.call_lanes()) {
      for (auto const index : lane.rows) {
        auto const range = ranges[index];
        columns_.put(range == kNone ? 0 : names_.number_of(recording_.ranges[range]));
      }
    }
    columns_.begin("call code");
    for (auto const& lane : rows_.call_lanes()) {
      for (auto const index : lane.rows) {
        columns_.put(names_.number_of(recording_.calls[index].code));
      }
    }
  }

  void write_ranges() {
    write_times("range begin", "range length", rows_.range_lanes(), recording_.ranges);
    columns_.begin("range name");
    for (auto const& lane : rows_.range_lanes()) {
      for (auto const index : lane.rows) {
        columns_.put(names_.number_of(recording_.ranges[index]));
      }
    }
  }

  void write_arrows() {
    std::vector<WaitArrow> arrows;
    for (auto const& arrow : wait_arrows(recording_)) {
      auto const from = rows_.place_of_activity(arrow.from);
      auto const to = rows_.place_of_activity(arrow.to);
      if (from != kNone && to != kNone) {
        arrows.push_back({from, to});
      }
    }
    columns_.begin("arrow from");
    std::int64_t last = 0;
    for (auto const& arrow : arrows) {
      columns_.put_signed(std::int64_t{arrow.from} - last);
      last = arrow.from;
    }
    columns_.begin("arrow to");
    last = 0;
    for (auto const& arrow : arrows) {
      columns_.put_signed(std::int64_t{arrow.to} - last);
      last = arrow.to;
    }
  }

  void write_spans() {
    columns_.begin("span length");
    for (auto const& device : report_.devices) {
      for (auto const& span : device.spans) {
        columns_.put(static_cast<std::uint64_t>(span.time.length()));
      }
    }
    columns_.begin("span class");
    for (auto const& device : report_.devices) {
      for (auto const& span : device.spans) {
        columns_.put(static_cast<std::uint64_t>(span.kind) * 32 + number_of(span.cause));
      }
    }
  }

  void write_intervals() {
    columns_.begin("lost begin");
    for (auto const& finding : report_.findings) {
      Ns last = report_.window.begin;
      for (auto const& interval : finding.intervals) {
        columns_.put_signed(interval.begin - last);
        last = interval.begin;
      }
    }
    columns_.begin("lost length");
    for (auto const& finding : report_.findings) {
      for (auto const& interval : finding.intervals) {
        columns_.put(static_cast<std::uint64_t>(interval.length()));
      }
    }
  }

  void describe() {
    json_.begin_object();
    json_.member("title", title_of(recording_));
    json_.member("verdict", printable(report_.verdict));
    json_.member("begin", report_.window.begin);
    json_.member("end", report_.window.end);
    json_.member("rows", rows_.row_count());
    json_.member("calls", rows_.call_count());
    json_.member("leftOut", rows_.left_out());
    json_.member("unrecorded", unrecorded_window_text(report_));
    describe_devices();
    describe_lanes();
    describe_shapes();
    describe_findings();
    json_.key("notes");
    json_.begin_array();
    for (auto const& note : notes_of({recording_, report_})) {
      json_.value(printable(note));
    }
    json_.end_array();
    json_.key("names");
    json_.array(names_.texts());
    json_.key("columns");
    json_.begin_array();
    for (auto const& [name, bytes] : columns_.columns()) {
      json_.begin_array();
      json_.value(name);
      json_.value(bytes);
      json_.end_array();
    }
    json_.end_array();
    json_.end_object();
  }

  void describe_devices() {
    json_.key("devices");
    json_.begin_array();
    for (auto const& report : report_.devices) {
      auto const& device = recording_.devices.at(report.device);
      json_.begin_object();
      json_.member("title", title_of(device));
      json_.member("number", device.number);
      json_.member("busy", report.busy);
      json_.member("spans", report.spans.size());
      json_.key("times");
      json_.begin_array();
      for (auto const& time : report.times) {
        json_.begin_array();
        json_.value(static_cast<int>(time.kind));
        json_.value(number_of(time.cause));
        json_.value(time.time);
        json_.end_array();
      }
      json_.end_array();
      json_.key("atOnce");
      json_.array(report.at_once);
      describe(figures_of(recording_, report_.window, report.device));
      json_.end_object();
    }
    json_.end_array();
  }

  /// Describes rows: a name and its times.
  void describe(Figures const& figures) {
    auto const row = [&](std::string_view name, WorkTime const& time) {
      json_.begin_array();
      json_.value(name);
      json_.value(time.busy);
      json_.value(time.exposed);
      json_.value(time.beside_kernels);
      json_.end_array();
    };
    json_.key("work");
    json_.begin_array();
    for (std::size_t i = 0; i < kWorkKinds; ++i) {
      if (figures.work[i].activities > 0) {
        row(id_of(static_cast<WorkKind>(i)), figures.work[i]);
      }
    }
    json_.end_array();
    json_.key("copies");
    json_.begin_array();
    for (auto const& copies : figures.copies) {
      row(copies_text(copies), copies.time);
    }
    json_.end_array();
    json_.key("streams");
    json_.begin_array();
    for (auto const& time : figures.streams) {
      json_.begin_array();
      json_.value(title_of(recording_, recording_.streams.at(time.stream)));
      json_.value(time.busy);
      json_.value(time.alone);
      json_.end_array();
    }
    json_.end_array();
  }

  void describe_lanes() {
    json_.key("lanes");
    json_.begin_array();
    for (auto const& lane : rows_.lanes()) {
      auto const& stream = recording_.streams.at(lane.of);
      json_.begin_object();
      json_.member("device", rows_.place_of_device(stream.device));
      json_.member("title", title_of(recording_, stream));
      if (stream.priority) {
        json_.member("priority", *stream.priority);
      }
      json_.member("count", lane.rows.size());
      json_.end_object();
    }
    json_.end_array();
    describe_host_lanes("callLanes", rows_.call_lanes());
    describe_host_lanes("rangeLanes", rows_.range_lanes());
  }

  void describe_host_lanes(char const* name, std::vector<PageLane> const& lanes) {
    json_.key(name);
    json_.begin_array();
    for (auto const& lane : lanes) {
      json_.begin_object();
      json_.member("thread", lane.of);
      json_.member("title", printable(rows_.title_of_thread(lane.of)));
      json_.member("count", lane.rows.size());
      json_.end_object();
    }
    json_.end_array();
  }

  void describe_shapes() {
    json_.key("shapes");
    json_.begin_array();
    for (auto const& shape : recording_.shapes) {
      json_.begin_array();
      for (auto const& sizes : {shape.grid, shape.block}) {
        for (int const count : sizes) {
          json_.value(count);
        }
      }
      json_.value(shape.registers_per_thread);
      json_.value(shape.shared_bytes);
      json_.end_array();
    }
    json_.end_array();
  }

  void describe_findings() {
    json_.member("order_title", order_title(report_.findings));
    json_.member("order", order_text(report_.findings));
    describe("together", report_.together);
    json_.key("findings");
    json_.begin_array();
    for (auto const& finding : report_.findings) {
      json_.begin_object();
      json_.member("cause", number_of(finding.cause));
      json_.member("device", recording_.devices.at(finding.device).number);
      json_.member("lost", finding.lost);
      json_.member("occurrences", finding.occurrences);
      json_.member("guess", finding.is_guess);
      json_.member("intervals", finding.intervals.size());
      json_.member("summary", printable(finding.summary));
      json_.member("advice", printable(finding.advice));
      describe("prediction", finding.prediction);
      json_.key("overlaps");
      json_.array(finding.overlaps_with);
      json_.key("evidence");
      json_.begin_array();
      for (auto const& evidence : finding.evidence) {
        describe(evidence);
      }
      json_.end_array();
      json_.end_object();
    }
    json_.end_array();
  }

  void describe(std::string_view name, std::optional<Prediction> const& prediction) {
    if (prediction) {
      json_.key(name);
      json_.begin_array();
      json_.value(gain_text(*prediction));
      if (prediction->range) {
        json_.value(
            fmt::format("gain {}: {}", gain_range_text(*prediction), prediction->range->why));
      }
      json_.end_array();
    }
  }

  void describe(Evidence const& evidence) {
    json_.begin_object();
    json_.member("text", printable(evidence.text));
    json_.member("begin", evidence.time.begin);
    json_.member("end", evidence.time.end);
    for (auto const& [name, index] :
         {std::pair("row", evidence.activity), std::pair("other", evidence.other)}) {
      if (index != kNone && rows_.place_of_activity(index) != kNone) {
        json_.member(name, rows_.place_of_activity(index));
      }
    }
    if (evidence.call != kNone && rows_.place_of_call(evidence.call) != kNone) {
      json_.member("call", rows_.place_of_call(evidence.call));
    }
    json_.end_object();
  }

  Recording const& recording_;
  Report const& report_;
  PageNames names_;
  PageRows rows_;
  PageColumns columns_;
  std::string description_;
  JsonWriter json_;
};

}  // namespace

PageData page_data(Explained const& explained, PageOptions const& options) {
  return DataWriter(explained, options).data();
}

}  // namespace msstream::overlap
