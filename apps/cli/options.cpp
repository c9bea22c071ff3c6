// SPDX-License-Identifier: Apache-2.0
#include "cli/options.hpp"

#include <msstream/base/detail/require.hpp>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <ostream>

namespace msstream::cli {

struct Options::Entry {
  Description description;
  Assign assign;
  Kind kind;
  std::string group;
  std::string variable;  ///< empty if the option is read from the command line alone
  bool required = false;

  void set(std::string_view value, std::string_view source) const {
    if (!assign(value)) {
      throw UsageError(
          fmt::format("{}: expected {}, found '{}'", source, description.accepts, value));
    }
  }

  [[nodiscard]] std::string help() const {
    auto const& shown = description.initial;
    std::string const initial = required                       ? "required"
                                : kind == Kind::optional_value ? shown
                                : shown.empty()                ? "default none"
                                                               : "default " + shown;
    return fmt::format("{}\n[{}; {}{}{}]",
                       description.purpose,
                       description.accepts,
                       initial,
                       variable.empty() ? "" : "; ",
                       variable);
  }
};

namespace {

constexpr std::string_view kPrefix = "MSSTREAM_";

std::string variable_of(std::string_view option) {
  std::string variable(kPrefix);
  for (char const character : option.substr(2)) {
    bool const lower = character >= 'a' && character <= 'z';
    variable.push_back(character == '-' ? '_' : static_cast<char>(character - (lower ? 32 : 0)));
  }
  return variable;
}

/// Returns the end of an error message that suggests the known name most similar to `name`, such as
/// "; did you mean --batch?"; empty if none is similar. The prefix that all names have in common is
/// not compared, since it would make all of them look similar.
std::string suggestion(std::string_view name,
                       std::vector<std::string_view> known,
                       std::string_view prefix) {
  if (!name.starts_with(prefix)) {
    return {};
  }
  std::erase_if(known, [&](std::string_view other) { return !other.starts_with(prefix); });
  for (auto& other : known) {
    other.remove_prefix(prefix.size());
  }
  auto const nearest = nearest_name(name.substr(prefix.size()), known);
  return nearest.empty() ? std::string() : fmt::format("; did you mean {}{}?", prefix, nearest);
}

/// Removes one of the two blank lines that CLI11 leaves between the groups of options in its help.
std::string single_spaced(std::string help) {
  for (auto gap = help.find("\n\n\n"); gap != std::string::npos; gap = help.find("\n\n\n", gap)) {
    help.erase(gap, 1);
  }
  return help;
}

/// Puts a line of usage in the place of CLI11's, unless it is empty.
std::string with_usage(std::string help, std::string_view program, std::string_view usage) {
  auto const begin = help.find("Usage: ");
  if (!usage.empty() && begin != std::string::npos) {
    help.replace(
        begin, help.find('\n', begin) - begin, fmt::format("Usage: {} {}", program, usage));
  }
  return help;
}

std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= to.size(); ++j) {
      std::size_t const replaced = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::vector<std::string_view> const& known) {
  std::string_view nearest;
  std::size_t least = name.size() / 3 + 1;
  for (auto const candidate : known) {
    std::size_t const distance = edit_distance(name, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

Arguments Arguments::of_process(int argc, char const* const* argv) {
  Arguments arguments;
  arguments.program = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "program";
  arguments.values.assign(argv + std::min(argc, 1), argv + argc);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    std::string_view const entry = *variable;
    auto const equals = entry.find('=');
    if (entry.starts_with(kPrefix) && equals != std::string_view::npos) {
      arguments.environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  return arguments;
}

Options::Options(std::string description, std::vector<std::pair<std::string, std::string>> examples)
    : description_(std::move(description)), examples_(std::move(examples)) {}

Options::~Options() = default;

void Options::group(std::string title) {
  group_ = std::move(title);
}

void Options::add(std::string const& name,
                  std::string& target,
                  std::string const& purpose,
                  std::string const& accepts) {
  add_value({name, purpose, accepts, target},
            assigner(target, [](std::string_view v) -> std::optional<std::string> {
              // Refuses a value that begins with two dashes: it is the next option, and the value
              // was forgotten.
              return v.empty() || v.starts_with("--") ? std::nullopt
                                                      : std::optional<std::string>(v);
            }));
}

void Options::add_flag(std::string const& name, bool& target, std::string const& purpose) {
  add_value(
      {name, purpose, "true or false (1 or 0, yes or no, on or off)", fmt::format("{}", target)},
      assigner(target, parse_flag),
      Kind::flag);
}

void Options::add_arguments(std::string const& name,
                            std::vector<std::string>& target,
                            std::string const& purpose) {
  arguments_ = Positional{name, purpose, &target};
}

Options::Entry& Options::entry_of(std::string_view name) {
  auto const found =
      std::ranges::find(entries_, name, [](auto const& entry) { return entry->description.name; });
  require(found != entries_.end(), "options: there is no option {}", name);
  return **found;
}

void Options::require_option(std::string_view name) {
  entry_of(name).required = true;
}

void Options::only_on_command_line(std::string_view name) {
  entry_of(name).variable.clear();
}

void Options::know_variables(std::initializer_list<std::string_view> names) {
  other_variables_.insert(other_variables_.end(), names.begin(), names.end());
}

void Options::add_value(Description description, Assign assign, Kind kind) {
  require(description.name.starts_with("--"), "options: {} lacks its dashes", description.name);
  std::string variable = variable_of(description.name);
  entries_.push_back(std::make_unique<Entry>(
      Entry{std::move(description), std::move(assign), kind, group_, std::move(variable)}));
}

void Options::parse(Arguments const& arguments, std::ostream& warnings) {
  CLI::App app(description_, arguments.program);
  app.allow_extras();  // unknown arguments are reported below, with a suggestion
  app.get_formatter()->column_width(28);
  app.set_help_flag("-h,--help", "print this and exit");

  std::vector<std::string> given(entries_.size());
  std::vector<CLI::Option*> parsed;
  std::vector<std::string_view> names{"--help"};
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    auto const& entry = *entries_[i];
    bool const is_flag = entry.kind == Kind::flag;
    auto* option = is_flag ? app.add_flag(entry.description.name, given[i], entry.help())
                           : app.add_option(entry.description.name, given[i], entry.help());
    if (entry.kind == Kind::optional_value) {
      option->expected(0, 1);
    }
    option->group(entry.group)
        ->option_text(is_flag                              ? " "
                      : entry.kind == Kind::optional_value ? "[VALUE]"
                                                           : "VALUE")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    parsed.push_back(option);
    names.emplace_back(entry.description.name);
  }
  if (arguments_) {
    app.add_option(arguments_->name, *arguments_->target, arguments_->purpose)->option_text(" ");
  }
  std::string footer = examples_.empty() ? "" : "Examples:\n";
  for (auto const& [command, effect] : examples_) {
    footer += fmt::format("  {}\n      {}\n", command, effect);
  }
  app.footer(footer);

  try {
    // CLI11 takes the arguments in reverse order.
    app.parse(std::vector<std::string>(arguments.values.rbegin(), arguments.values.rend()));
  } catch (CLI::CallForHelp const&) {
    throw HelpRequested(with_usage(single_spaced(app.help()), arguments.program, usage_));
  } catch (CLI::ArgumentMismatch const& error) {
    throw UsageError(missing_value(error.what()));
  } catch (CLI::ParseError const& error) {
    throw UsageError(error.what());
  }
  auto extra = app.remaining();
  if (arguments_) {
    std::erase(extra, "--");  // CLI11 keeps the separator, whose followers are arguments
  }
  if (!extra.empty()) {
    throw UsageError(fmt::format(
        "unknown argument '{}'{}", extra.front(), suggestion(extra.front(), names, "--")));
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    auto const& entry = *entries_[i];
    auto const variable = entry.variable.empty() ? arguments.environment.end()
                                                 : arguments.environment.find(entry.variable);
    if (parsed[i]->count() > 0) {
      entry.set(given[i], entry.description.name);
    } else if (variable != arguments.environment.end() && !variable->second.empty()) {
      entry.set(variable->second, entry.variable);
    } else if (entry.required) {
      throw UsageError(
          fmt::format("{} is required: expected {}{}",
                      entry.description.name,
                      entry.description.accepts,
                      entry.variable.empty() ? "" : fmt::format(" (or set {})", entry.variable)));
    }
  }
  warn_of_unknown(arguments, warnings);
}

std::string Options::missing_value(std::string const& message) const {
  for (auto const& entry : entries_) {
    if (message.starts_with(entry->description.name + ":")) {
      return fmt::format(
          "{}: expected {}, found nothing", entry->description.name, entry->description.accepts);
    }
  }
  return message;
}

void Options::warn_of_unknown(Arguments const& arguments, std::ostream& warnings) const {
  std::vector<std::string_view> known(other_variables_.begin(), other_variables_.end());
  for (auto const& entry : entries_) {
    if (!entry->variable.empty()) {
      known.emplace_back(entry->variable);
    }
  }
  for (auto const& [variable, ignored] : arguments.environment) {
    if (std::ranges::find(known, variable) != known.end()) {
      continue;
    }
    auto const nearest = suggestion(variable, known, kPrefix);
    if (!allows_others_ || !nearest.empty()) {
      warnings << fmt::format(
          "{}: warning: unknown variable {}{}\n", arguments.program, variable, nearest);
    }
  }
}

}  // namespace msstream::cli
