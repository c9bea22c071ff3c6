// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/option_value.hpp"

#include <fmt/core.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::cli {

/// A mistake in a program's command line or environment. The message says which option or variable
/// is wrong, what it accepts and what was found.
class UsageError : public std::runtime_error {
 public:
  /// `program` is the program, with its command, whose help says more; empty for the program alone.
  explicit UsageError(std::string const& message, std::string program = {})
      : std::runtime_error(message), program_(std::move(program)) {}
  [[nodiscard]] std::string const& program() const noexcept { return program_; }

 private:
  std::string program_;
};

/// An exception that ends the parsing when `--help` is given. Its what() is the help.
class HelpRequested : public std::exception {
 public:
  explicit HelpRequested(std::string help) : help_(std::move(help)) {}
  [[nodiscard]] char const* what() const noexcept override { return help_.c_str(); }

 private:
  std::string help_;
};

using Environment = std::map<std::string, std::string, std::less<>>;

/// The command-line arguments and the environment variables of a program.
struct Arguments {
  std::string program;
  std::vector<std::string> values;
  Environment environment;  ///< variables that begin with MSSTREAM_

  [[nodiscard]] static Arguments of_process(int argc, char const* const* argv);
};

/// The command-line options of a program. Each `--some-option` can also be set by the environment
/// variable MSSTREAM_SOME_OPTION, except those of only_on_command_line(). The command line takes
/// precedence over variables. An empty variable counts as not set. If an option is given twice, the
/// last value counts.
///
/// An option stores its value in a target variable, which holds the default before, and must
/// outlive the parsing. Names begin with `--`.
class Options {
 public:
  /// Starts with no options. The help begins with `description`, and ends with `examples`, which
  /// are pairs of a command line and its effect.
  explicit Options(std::string description,
                   std::vector<std::pair<std::string, std::string>> examples = {});
  Options(Options const&) = delete;
  Options& operator=(Options const&) = delete;
  ~Options();

  /// Sets the title in the help for all options that are added after this call.
  void group(std::string title);

  template <NumberOption T>
  void add(std::string const& name, T& target, std::string const& purpose, Range<T> range = {}) {
    add_value({name, purpose, describe_range(range), fmt::format("{}", target)},
              assigner(target, [range](std::string_view v) { return parse_option<T>(v, range); }));
  }
  /// Adds an option whose target stays empty if it is not given, which stands for `standard`.
  template <NumberOption T>
  void add(std::string const& name,
           std::optional<T>& target,
           T standard,
           std::string const& purpose,
           Range<T> range = {}) {
    add_value({name, purpose, describe_range(range), fmt::format("{}", standard)},
              assigner(target, [range](std::string_view v) { return parse_option<T>(v, range); }));
  }
  /// Adds an option whose number may be left out: `--name` alone stores `without`. The target is
  /// empty if the option is not given.
  template <NumberOption T>
  void add_optional(std::string const& name,
                    std::optional<T>& target,
                    T without,
                    std::string const& purpose,
                    Range<T> range = {}) {
    add_value(
        {name, purpose, describe_range(range), fmt::format("{}, if it has no value", without)},
        [&target, without, range](std::string_view value) {
          target = value.empty() ? without : parse_option<T>(value, range);
          return target.has_value();
        },
        Kind::optional_value);
  }
  /// Adds an option with a list of numbers, such as `--layers 256,128`.
  template <NumberOption T>
  void add(std::string const& name,
           std::vector<T>& target,
           std::string const& purpose,
           Range<T> range = {}) {
    std::string shown;
    for (auto const& number : target) {
      shown += fmt::format("{}{}", shown.empty() ? "" : ",", number);
    }
    add_value(
        {name, purpose, describe_range(range, true), shown},
        assigner(target, [range](std::string_view v) { return parse_option_list<T>(v, range); }));
  }
  /// Adds an option whose value is text. `accepts` says what is expected, such as "a path".
  void add(std::string const& name,
           std::string& target,
           std::string const& purpose,
           std::string const& accepts = "text");
  void add_flag(std::string const& name, bool& target, std::string const& purpose);
  /// Accepts arguments that belong to no option, such as files. The help names them `name`. Without
  /// this, such an argument is a mistake.
  void add_arguments(std::string const& name,
                     std::vector<std::string>& target,
                     std::string const& purpose);
  template <class E>
  void add_choice(std::string const& name,
                  E& target,
                  std::vector<std::pair<std::string, E>> choices,
                  std::string const& purpose) {
    std::string accepts;
    std::string shown;
    for (auto const& [word, value] : choices) {
      accepts += fmt::format("{}{}", accepts.empty() ? "" : ", ", word);
      shown = value == target ? word : shown;
    }
    auto const find = [choices = std::move(choices)](std::string_view v) -> std::optional<E> {
      for (auto const& [word, value] : choices) {
        if (word == v) {
          return value;
        }
      }
      return std::nullopt;
    };
    add_value({name, purpose, fmt::format("one of {}", accepts), shown}, assigner(target, find));
  }

  /// Makes an option required: parse() throws UsageError if neither the command line nor the
  /// environment sets it.
  void require_option(std::string_view name);
  /// Declares that an option is read from the command line alone, as is right for one that prints
  /// something and ends the program: a variable of its name, such as MSSTREAM_VERSION, would end
  /// every run.
  void only_on_command_line(std::string_view name);
  /// Declares environment variables that other code reads, so that parse() does not report them as
  /// unknown.
  void know_variables(std::initializer_list<std::string_view> names);
  /// Sets what follows the program's name in the help's line of usage.
  void describe_usage(std::string usage) { usage_ = std::move(usage); }
  /// Declares that the environment may have variables of a program that this one starts: parse()
  /// reports those only that resemble a known name.
  void allow_variables_of_others() { allows_others_ = true; }

  /// Stores the values of the command line and the environment in the options' target variables.
  /// Writes a warning for each unknown MSSTREAM_ variable, with the nearest known name, since a
  /// misspelt variable would otherwise have no effect without a message. Throws UsageError for a
  /// mistake, and HelpRequested for `--help`.
  void parse(Arguments const& arguments, std::ostream& warnings);

 private:
  struct Description {
    std::string name;
    std::string purpose;
    std::string accepts;
    std::string initial;
  };
  /// A function that parses and stores a value, and returns false if the value is not accepted.
  using Assign = std::function<bool(std::string_view)>;
  struct Entry;

  template <class T, class Parse>
  static Assign assigner(T& target, Parse parse) {
    return [&target, parse = std::move(parse)](std::string_view value) {
      auto parsed = parse(value);
      if (parsed) {
        target = std::move(*parsed);
      }
      return parsed.has_value();
    };
  }
  enum class Kind : std::uint8_t { value, optional_value, flag };
  void add_value(Description description, Assign assign, Kind kind = Kind::value);
  [[nodiscard]] Entry& entry_of(std::string_view name);
  /// Returns a message for a missing value, with what the option accepts, from CLI11's message
  /// "--name: 1 required …".
  [[nodiscard]] std::string missing_value(std::string const& message) const;
  void warn_of_unknown(Arguments const& arguments, std::ostream& warnings) const;

  std::string description_;
  std::vector<std::pair<std::string, std::string>> examples_;
  std::string group_ = "Options";
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<std::string> other_variables_;
  bool allows_others_ = false;
  std::string usage_;
  struct Positional {
    std::string name;
    std::string purpose;
    std::vector<std::string>* target;
  };
  std::optional<Positional> arguments_;
};

/// Returns the name in `known` with the smallest edit distance to `name` (Levenshtein), or nothing
/// if more than a third of `name` would change.
[[nodiscard]] std::string_view nearest_name(std::string_view name,
                                            std::vector<std::string_view> const& known);

/// Calls `body`, which is a whole program, and returns the exit status: 0, also after `--help`; 2
/// for a UsageError and for a bad value of a library variable; 1 for any other exception, and if an
/// output failed (see outputs.hpp). Errors go to standard error as `program: error: …`, one line
/// each. SIGINT, SIGTERM and SIGHUP end the program without leaving temporary files.
[[nodiscard]] int run_program(int argc,
                              char const* const* argv,
                              std::function<void(Arguments const&)> const& body);

}  // namespace msstream::cli
