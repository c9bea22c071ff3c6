// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/support/option_value.hpp>

#include <exception>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::support {

/// The caller of the program made a mistake; the message names the option or variable, what it
/// accepts and what was found.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// `--help` was asked for.
class HelpRequested : public std::exception {
 public:
  explicit HelpRequested(std::string help) : help_(std::move(help)) {}
  [[nodiscard]] char const* what() const noexcept override { return help_.c_str(); }

 private:
  std::string help_;
};

using Environment = std::map<std::string, std::string, std::less<>>;

/// What a program was called with.
struct Arguments {
  std::string program;
  std::vector<std::string> values;
  Environment environment;  ///< those variables that begin with MSSTREAM_

  [[nodiscard]] static Arguments of_process(int argc, char const* const* argv);
};

/// A program's options. Each `--some-option` is also the variable MSSTREAM_SOME_OPTION; the command
/// line wins, a variable that is empty counts as not set, and of an option given twice the last
/// counts.
///
/// Targets hold the defaults, and outlive the parsing. Names begin with `--`.
class Options {
 public:
  /// `examples` are pairs of a command line and what it does; they end the help.
  explicit Options(std::string description,
                   std::vector<std::pair<std::string, std::string>> examples = {});
  Options(Options const&) = delete;
  Options& operator=(Options const&) = delete;
  ~Options();

  /// Options that are added from now on stand under this title in the help.
  void group(std::string title);

  template <NumberOption T>
  void add(std::string const& name, T& target, std::string const& purpose, Range<T> range = {}) {
    add_value({name, purpose, describe_range(range), text(target)},
              assigner(target, [range](std::string_view v) { return parse_option<T>(v, range); }));
  }
  /// `--layers 256,128`
  template <NumberOption T>
  void add(std::string const& name,
           std::vector<T>& target,
           std::string const& purpose,
           Range<T> range = {}) {
    std::string shown;
    for (auto const& number : target) {
      shown += text(shown.empty() ? "" : ",", number);
    }
    add_value(
        {name, purpose, describe_range(range, true), shown},
        assigner(target, [range](std::string_view v) { return parse_option_list<T>(v, range); }));
  }
  /// `accepts` says what of, as "a path".
  void add(std::string const& name,
           std::string& target,
           std::string const& purpose,
           std::string const& accepts = "text");
  void add_flag(std::string const& name, bool& target, std::string const& purpose);
  template <class E>
  void add_choice(std::string const& name,
                  E& target,
                  std::vector<std::pair<std::string, E>> choices,
                  std::string const& purpose) {
    std::string accepts;
    std::string shown;
    for (auto const& [word, value] : choices) {
      accepts += text(accepts.empty() ? "" : ", ", word);
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
    add_value({name, purpose, text("one of ", accepts), shown}, assigner(target, find));
  }

  /// The option must be given; its target's value is no default.
  void require_option(std::string_view name);
  /// Variables that others read, so that they are not reported as unknown.
  void know_variables(std::initializer_list<std::string_view> names);

  /// Sets the targets. Writes a warning for each MSSTREAM_ variable that nobody knows, with the
  /// nearest name that is known: a misspelt variable that did nothing would be worse. Throws
  /// UsageError, HelpRequested.
  void parse(Arguments const& arguments, std::ostream& warnings);

 private:
  struct Description {
    std::string name;
    std::string purpose;
    std::string accepts;
    std::string initial;
  };
  /// Parses and stores; false when the value is not accepted.
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
  void add_value(Description description, Assign assign, bool is_flag = false);
  /// CLI11's message, "--name: 1 required …", with what the option accepts.
  [[nodiscard]] std::string missing_value(std::string const& message) const;
  void warn_of_unknown(Arguments const& arguments, std::ostream& warnings) const;

  std::string description_;
  std::vector<std::pair<std::string, std::string>> examples_;
  std::string group_ = "Options";
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<std::string> other_variables_;
};

/// Of `known`, the name that the fewest insertions, deletions and replacements turn `name` into
/// (Levenshtein), or nothing when more than a third of it would change.
[[nodiscard]] std::string_view nearest_name(std::string_view name,
                                            std::vector<std::string_view> const& known);

/// Runs a program's body and turns how it ended into an exit status: 0, also after `--help`; 2 for
/// a UsageError and for a bad value of a library variable; 1 for any other exception, and when an
/// output failed (see outputs.hpp). Errors go to standard error as `program: error: …`, a line
/// each. SIGINT, SIGTERM and SIGHUP end the program and leave no temporary file.
[[nodiscard]] int run_program(int argc,
                              char const* const* argv,
                              std::function<void(Arguments const&)> const& body);

}  // namespace msstream::support
