// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of step trace files. A file must either be refused by an error that contains
// the file and the field, or be drawn, saved and read back unchanged. The stream groups chosen for
// it must not be predicted to be slower than a single group.
#include "fuzz.hpp"

#include <msstream/step/auto_assignment.hpp>
#include <msstream/step/step_trace.hpp>

#include <optional>
#include <stdexcept>

namespace {

using namespace msstream;
using fuzz::expect;

std::optional<StepTrace> read(std::string_view file) {
  try {
    return StepTrace::from_json(file, "f");
  } catch (std::invalid_argument const& error) {
    std::string_view const message = error.what();
    expect(message.starts_with("f: "), "no file in: {}", message);
    return std::nullopt;
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t count) {
  auto const trace = read(fuzz::as_text(bytes, count));
  if (!trace) {
    return 0;
  }
  expect(read(trace->json()) == trace, "another trace from its own file");
  expect(!trace->dot().empty() && trace->svg().ends_with("</svg>\n"), "no picture");
  auto const path = trace->critical_path();
  for (std::size_t i = 1; i < path.operations.size(); ++i) {
    expect(path.operations[i - 1] < path.operations[i], "a path backwards");
  }
  constexpr std::size_t kFew = 50;
  if (trace->operations().size() > kFew) {
    return 0;
  }
  auto const waits = minimal_waits(*trace);
  expect(waits.necessary <= waits.hazards && waits.issued <= waits.hazards, "waits for nothing");
  try {
    auto const choice = auto_assignment(
        *trace, 3, {.model = {.launch = StepModel::Launch::graph}, .most_predictions = 10});
    expect(choice.predicted_ns <= choice.one_group_ns, "slower than one group");
    auto const assignment = StreamAssignment::parse(choice.text, "f", 3);
    expect(groups_by(*trace, assignment) == choice.groups, "another choice in the text");
  } catch (std::invalid_argument const& error) {
    expect(std::string_view(error.what()).find("cannot be written") != std::string_view::npos,
           error.what());
  }
  return 0;
}
