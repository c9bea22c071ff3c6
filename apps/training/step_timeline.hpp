// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/trace/timeline.hpp>

#include <optional>
#include <string>

namespace msstream::training {

/// Whether a program replays captured steps, in which a timeline shows one operation, `replay`.
enum class Replays : bool { no, yes };

/// Returns the timeline of a step that was issued eagerly as Trace Event JSON: see
/// Timeline::trace_json(). With Replays::yes, the trace says, as a label of its process and as
/// `otherData.step`, that the step was issued eagerly in place of a replay.
[[nodiscard]] std::string eager_step_json(trace::Timeline const& timeline,
                                          Replays replays,
                                          std::optional<int> rank = std::nullopt);

/// Returns text for the dashboard's first line, which says what timelines of captured steps show;
/// empty without captures. `has_eager_steps`: whether they are those of eager steps, which one rank
/// issues in between.
[[nodiscard]] std::string timelines_text(bool captures, bool has_eager_steps);

}  // namespace msstream::training
