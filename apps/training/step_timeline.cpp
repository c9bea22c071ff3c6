// SPDX-License-Identifier: Apache-2.0
#include "training/step_timeline.hpp"

#include <fmt/core.h>

#include <stdexcept>

namespace msstream::training {

namespace {

constexpr char const* kWhatWasRecorded = "an eager step, issued in place of a replay";

/// Inserts `text` behind the first `mark` in `json`.
void insert_behind(std::string& json, char mark, std::string const& text) {
  auto const at = json.find(mark);
  if (at == std::string::npos) {
    throw std::logic_error(fmt::format("a trace in JSON has no '{}'", mark));
  }
  json.insert(at + 1, text);
}

}  // namespace

std::string eager_step_json(trace::Timeline const& timeline,
                            Replays replays,
                            std::optional<int> rank) {
  auto json = timeline.trace_json(rank);
  if (replays == Replays::yes) {
    insert_behind(json,
                  '[',
                  fmt::format("\n{{\"ph\":\"M\",\"pid\":{},\"tid\":0,\"name\":\"process_labels\","
                              "\"args\":{{\"labels\":\"{}\"}}}},",
                              rank.value_or(1),
                              kWhatWasRecorded));
    insert_behind(json, '{', fmt::format("\n\"otherData\":{{\"step\":\"{}\"}},", kWhatWasRecorded));
  }
  return json;
}

std::string timelines_text(bool captures, bool has_eager_steps) {
  if (!captures) {
    return "";
  }
  return has_eager_steps ? "; captured steps, of whose operations timelines show eager ones"
                         : "; captured steps, which are one operation in timelines";
}

}  // namespace msstream::training
