// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace msstream::report {

/// The report of a run, a JSON object: values, which are set, and lists, which grow as the run goes
/// on.
///
///     report::RunReport report;
///     report.set("options/batch", 4096);
///     report.append("losses", loss);
///     report.append("epochs", {{"epoch", 1}, {"AUC", auc}});
///     report.write("run.json");
///
/// gives {"options": {"batch": 4096}, "losses": [0.69, …], "epochs": [{"epoch": 1, "AUC": 0.79}]}.
/// A path has the names of the objects that a value lies in, divided by `/`. Members are written in
/// the order in which they first got a value. A NaN or an infinity, which JSON lacks, becomes null,
/// and bytes that are not UTF-8 become the replacement character.
///
/// Thread-safe.
class RunReport {
 public:
  /// A number, a text, a truth value or, if empty, null.
  class Value {
   public:
    /// Takes a number, a text, a truth value, or null; an empty optional is null, too.
    Value(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)
    template <class T>
      requires(std::integral<T> || std::floating_point<T>)
    Value(T value)  // NOLINT(google-explicit-constructor)
        : held_(of(value)) {}
    template <std::convertible_to<std::string_view> T>
    Value(T const& value)  // NOLINT(google-explicit-constructor)
        : held_(std::string(std::string_view(value))) {}
    template <class T>
    Value(std::optional<T> const& value) {  // NOLINT(google-explicit-constructor)
      if (value) {
        *this = Value(*value);
      }
    }

   private:
    friend class RunReport;
    using Held =
        std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string>;

    template <class T>
    static Held of(T value) {
      if constexpr (std::same_as<T, bool>) {
        return value;
      } else if constexpr (std::floating_point<T>) {
        return static_cast<double>(value);
      } else if constexpr (std::signed_integral<T>) {
        return std::int64_t{value};
      } else {
        return std::uint64_t{value};
      }
    }

    Held held_;
  };
  /// An object of a list: its members by name.
  using Row = std::initializer_list<std::pair<std::string_view, Value>>;

  /// Makes an empty report. Of a list, at most `most_entries` entries are kept, so that a long run
  /// takes bounded memory: a list that is full drops every second entry, and from then on takes
  /// every second, every fourth … of the new ones. The member `<list>_every` then has this number,
  /// so this name is refused for other members of the object that has the list.
  /// Throws std::invalid_argument unless `most_entries` is at least 2.
  explicit RunReport(std::size_t most_entries = 1'000'000);
  RunReport(RunReport const&) = delete;
  RunReport& operator=(RunReport const&) = delete;
  ~RunReport();

  /// Sets a value, or replaces it. Throws std::invalid_argument if the path leads through a value
  /// or a list, or to an object or a list, and for an empty name in it, or one that ends in
  /// `_every` beside the list of the name before that.
  void set(std::string_view path, Value value);
  /// Appends a value to a list. Throws std::invalid_argument like set().
  void append(std::string_view path, Value value);
  /// Appends an object to a list. Throws std::invalid_argument like set(), and for two values of
  /// one name.
  void append(std::string_view path, Row row);

  /// Returns the report so far as JSON, indented, with a line end.
  [[nodiscard]] std::string json() const;
  /// Writes the report so far as a whole: see OutputFile, also for the exceptions. The path may be
  /// a FIFO or a device.
  void write(std::filesystem::path const& path) const;

 private:
  class State;
  std::unique_ptr<State> const state_;
};

}  // namespace msstream::report
