// SPDX-License-Identifier: Apache-2.0
// Fuzzes a program's options, one per line of the input: `MSSTREAM_NAME=value` is an environment
// variable, any other line is an argument. The options must either be refused by a UsageError, or
// have values within their ranges. The values, written as arguments or as variables, must be parsed
// to the same values again.
#include "cli/options.hpp"
#include "fuzz.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>

namespace {

using namespace msstream;
using cli::Arguments;
using fuzz::expect;

enum class Colour { red, blue };

struct Values {
  std::int64_t epochs = 3;
  double rate = 0.5;
  std::vector<int> layers{256, 128};
  std::string save;
  Colour colour = Colour::red;
  bool quiet = false;
  friend bool operator==(Values const&, Values const&) = default;

  /// Returns the names and values of all options. Omits an empty path, because it cannot be passed.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> spelt() const {
    std::string widths;
    for (int const width : layers) {
      widths += fmt::format("{}{}", widths.empty() ? "" : ",", width);
    }
    std::vector<std::pair<std::string, std::string>> out{
        {"epochs", fmt::format("{}", epochs)},
        {"rate", fmt::format("{}", rate)},
        {"layers", widths},
        {"colour", colour == Colour::red ? "red" : "blue"},
        {"quiet", fmt::format("{}", quiet)}};
    if (!save.empty()) {
      out.emplace_back("save", save);
    }
    return out;
  }
};

struct Parsed {
  Values values;
  std::string warnings;
};

/// Parses the arguments. Returns nothing if they are refused or request the help text.
std::optional<Parsed> parse(Arguments const& arguments) {
  Parsed parsed;
  auto& values = parsed.values;
  cli::Options options("Fuzzed.", {{"fuzzed --epochs 1", "one"}});
  options.add("--epochs", values.epochs, "passes", {1, 100});
  options.add("--rate", values.rate, "step length", {0.0, 1.0});
  options.add("--layers", values.layers, "widths", {1});
  options.group("Output");
  options.add("--save", values.save, "where to", "a path");
  options.add_choice<Colour>(
      "--colour", values.colour, {{"red", Colour::red}, {"blue", Colour::blue}}, "of the bar");
  options.add_flag("--quiet", values.quiet, "no progress");
  std::ostringstream warnings;
  try {
    options.parse(arguments, warnings);
  } catch (cli::UsageError const& error) {
    expect(!std::string_view(error.what()).empty(), "an error without a word");
    return std::nullopt;
  } catch (cli::HelpRequested const& help) {
    expect(std::string_view(help.what()).find("--epochs") != std::string_view::npos, "no help");
    return std::nullopt;
  }
  parsed.warnings = warnings.str();
  return parsed;
}

Arguments arguments_of(std::string_view input) {
  Arguments arguments{"fuzzed", {}, {}};
  while (!input.empty()) {
    auto const line = input.substr(0, input.find('\n'));
    input.remove_prefix(std::min(line.size() + 1, input.size()));
    auto const equals = line.find('=');
    if (line.starts_with("MSSTREAM_") && equals != std::string_view::npos) {
      arguments.environment.emplace(line.substr(0, equals), line.substr(equals + 1));
    } else {
      arguments.values.emplace_back(line);
    }
  }
  return arguments;
}

void expect_in_range(Values const& values) {
  expect(values.epochs >= 1 && values.epochs <= 100, "epochs {}", values.epochs);
  expect(values.rate >= 0 && values.rate <= 1, "rate {}", values.rate);
  expect(!values.layers.empty() && std::ranges::min(values.layers) >= 1, "layers");
}

void expect_a_warning_each(Arguments const& arguments, std::string const& warnings) {
  std::size_t unknown = 0;
  for (auto const& [variable, ignored] : arguments.environment) {
    auto const name = std::string_view(variable).substr(std::string_view("MSSTREAM_").size());
    constexpr std::string_view known[]{"EPOCHS", "RATE", "LAYERS", "SAVE", "COLOUR", "QUIET"};
    unknown += std::ranges::find(known, name) == std::end(known) ? 1 : 0;
  }
  expect(static_cast<std::size_t>(std::ranges::count(warnings, '\n')) == unknown,
         "{} unknown variables, warnings: {}",
         unknown,
         warnings);
}

void expect_again(Values const& values) {
  Arguments line{"fuzzed", {}, {}};
  Arguments variables{"fuzzed", {}, {}};
  for (auto const& [name, value] : values.spelt()) {
    line.values.push_back(fmt::format("--{}={}", name, value));
    std::string upper = name;
    std::ranges::transform(
        upper, upper.begin(), [](char letter) { return static_cast<char>(letter - 'a' + 'A'); });
    variables.environment.emplace("MSSTREAM_" + upper, value);
  }
  auto const from_line = parse(line);
  expect(from_line && from_line->values == values, "a command line does not give itself again");
  auto const from_variables = parse(variables);
  expect(from_variables && from_variables->values == values && from_variables->warnings.empty(),
         "variables do not give themselves again");
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t count) {
  auto const input = fuzz::as_text(bytes, count);
  if (input.find('\0') != std::string_view::npos) {
    return 0;  // neither an argument nor a variable can hold a NUL
  }
  auto const arguments = arguments_of(input);
  if (auto const parsed = parse(arguments)) {
    expect_in_range(parsed->values);
    expect_a_warning_each(arguments, parsed->warnings);
    expect_again(parsed->values);
  }
  return 0;
}
