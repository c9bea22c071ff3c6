// SPDX-License-Identifier: Apache-2.0
#include "report_command.hpp"

#include "cli/outputs.hpp"
#include "cli/page.hpp"
#include "overlap/show/page.hpp"
#include "overlap/show/picture.hpp"
#include "overlap/show/report_json.hpp"
#include "overlap/show/terminal.hpp"
#include "report_options.hpp"
#include "report_results.hpp"

#include <msstream/base/version.hpp>

#include <fmt/core.h>

#include <iostream>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::overlap {
namespace {

void write_or_print(std::string_view option, std::string const& path, std::string const& content) {
  if (path == kStdout) {
    cli::print(content);
  } else {
    cli::write_output(option, path, content);
  }
}

void compare_files(ReportOptions const& chosen) {
  auto const before = summaries_of(chosen.files[0], chosen);
  auto const after = summaries_of(chosen.files[1], chosen);
  auto const comparisons = chosen_by("--compare", [&] { return compare(before, after); });
  if (!chosen.quiet && !chosen.prints_output()) {
    cli::print(terminal_text(comparisons, TextStyle::of_stdout()));
  }
  write_or_print("--json", chosen.json, json_text(comparisons));
  write_or_print("--html", chosen.html, html_text(comparisons));
}

void print_report(std::vector<Explained> const& reports) {
  auto const style = TextStyle::of_stdout();
  std::string text;
  for (auto const& explained : reports) {
    text += text.empty() ? "" : "\n";
    text += terminal_text(explained, style);
  }
  cli::print(text);
}

}  // namespace

int report_command(cli::Arguments const& arguments) {
  auto const chosen = parse_report_options(arguments);
  if (chosen.shows_version) {
    cli::print(fmt::format("msstream-overlap {}\n", version()));
    return 0;
  }
  if (chosen.list_causes) {
    cli::print(list_of_causes());
    return 0;
  }
  if (!chosen.explain.empty()) {
    auto const cause = chosen_by("--explain", [&] { return require_cause(chosen.explain); });
    auto const page = cli::page_path("docs/overlap.md");
    cli::print(explanation_of(cause, TextStyle::of_stdout().width, page));
    return 0;
  }
  std::vector<FailOn> conditions;
  if (!chosen.fail_on.empty()) {
    conditions = chosen_by("--fail-on", [&] { return parse_fail_on(chosen.fail_on); });
  }
  check(chosen);
  if (chosen.compare) {
    compare_files(chosen);
    return 0;
  }
  auto const results = results_of(chosen.files, chosen, conditions);
  auto const explained = results.explained();
  if (!chosen.quiet && !chosen.prints_output()) {
    print_report(explained);
  }
  if (!chosen.json.empty()) {
    write_or_print("--json", chosen.json, json_text(explained));
  }
  if (!chosen.html.empty()) {
    write_or_print("--html", chosen.html, html_text(explained));
  }
  if (!chosen.svg.empty()) {
    write_or_print(
        "--svg", chosen.svg, svg_text(explained, {.only_timeline = chosen.svg_timeline}));
  }
  bool failed = false;
  for (auto const& report : explained) {
    for (auto const& failure : failures_of(report, conditions)) {
      std::cerr << fmt::format("{}: failed: {}\n", arguments.program, failure);
      failed = true;
    }
  }
  return failed ? kFailedCheck : 0;
}

}  // namespace msstream::overlap
