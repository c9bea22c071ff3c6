// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/colours.hpp"

#include "base/json_writer.hpp"

#include <array>
#include <cstddef>

namespace msstream::overlap {
namespace {

/// In the order of Cause.
constexpr std::array<std::string_view, kCauses> kCauseColours{
    "#a08ca8", "#d86aa8", "#e0568f", "#b8336a", "#ff7a45", "#8660d0", "#f2a07b", "#e5484d",
    "#f0a020", "#1c9fe0", "#3f7bf2", "#6468ee", "#16b3a0", "#a64df0", "#c084fc", "#d9b310",
    "#d946c8", "#a97f5a", "#c9a26b", "#6b7d95", "#22bcd4", "#9aa5b4"};

}  // namespace

RowKind kind_of(Activity const& activity) noexcept {
  switch (activity.kind) {
    case ActivityKind::kernel:
      return activity.collective == kNone ? RowKind::kernel : RowKind::collective;
    case ActivityKind::copy:
      return activity.direction == CopyDirection::h2d   ? RowKind::h2d
             : activity.direction == CopyDirection::d2h ? RowKind::d2h
                                                        : RowKind::other_copy;
    case ActivityKind::fill:
      return RowKind::fill;
    case ActivityKind::graph:
      break;
  }
  return RowKind::graph;
}

std::string_view colour_of(Cause cause) noexcept {
  return kCauseColours[static_cast<std::size_t>(cause)];
}

std::string_view colour_of(ClassSpan const& span) noexcept {
  switch (span.kind) {
    case TimeClass::overlapped:
      return kOverlappedColour;
    case TimeClass::alone:
      return kAloneColour;
    case TimeClass::lost:
    case TimeClass::idle:
      break;
  }
  return colour_of(span.cause.value_or(Cause::unknown));
}

std::string_view colour_of(RowKind kind) noexcept {
  constexpr std::array<std::string_view, kRowKinds> kColours{
      "#5b8dd6", "#2ba08f", "#7aa83f", "#4fb0a8", "#b39b3e", "#8a7cd8", "#cc7a33"};
  return kColours[static_cast<std::size_t>(kind)];
}

std::string_view colour_of(CallKind kind) noexcept {
  constexpr std::array<std::string_view, kCallKinds> kColours{"#8fa3bf",
                                                              "#5b8dd6",
                                                              "#8a7cd8",
                                                              "#2ba08f",
                                                              "#b39b3e",
                                                              "#e0568f",
                                                              "#e0568f",
                                                              "#ff7a45",
                                                              "#f2a07b",
                                                              "#a97f5a",
                                                              "#a97f5a",
                                                              "#d86aa8",
                                                              "#6b7d95",
                                                              "#8a7cd8",
                                                              "#d86aa8",
                                                              "#e0568f"};
  return kColours[static_cast<std::size_t>(kind)];
}

std::string colours_json() {
  std::string out;
  detail::JsonWriter json(out);
  auto const list = [&]<class Kind>(std::string_view name, int count, Kind) {
    json.key(name);
    json.begin_array();
    for (int i = 0; i < count; ++i) {
      json.value(colour_of(static_cast<Kind>(i)));
    }
    json.end_array();
  };
  json.begin_object();
  json.member("overlapped", kOverlappedColour);
  json.member("alone", kAloneColour);
  list("causes", kCauses, Cause{});
  list("kinds", kRowKinds, RowKind{});
  list("calls", kCallKinds, CallKind{});
  json.end_object();
  return out;
}

}  // namespace msstream::overlap
