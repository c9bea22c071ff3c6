// SPDX-License-Identifier: Apache-2.0
// The yardstick of scripts/compile_benchmark.py: what a user pays for an ordinary file that uses
// the standard library and a template of its own, and nothing of msstream. Compile times are given
// as multiples of this file's, since a ratio differs less between machines than seconds do. The
// file parses lines with std::regex, keeps them in containers of variants, reduces them by
// closures, and prints a table. Like the files that it is compared with, it has little code of its
// own: the compiler reads headers, generates templates and optimises them. The program is only
// compiled, never run. An edit changes the meaning of every budget, so all budgets must then be set
// again.
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace yardstick {

using Value = std::variant<double, std::string>;
using Fields = std::map<std::string, Value>;

/// Reduces the fields of one name, each converted to a number.
template <class Step>
double reduce(std::vector<Fields> const& lines, std::string const& name, Step step) {
  double sum = 0;
  for (Fields const& fields : lines) {
    if (auto const found = fields.find(name); found != fields.end()) {
      auto const number = []<class T>(T const& value) {
        if constexpr (std::is_same_v<T, std::string>) {
          return static_cast<double>(value.size());
        } else {
          return value;
        }
      };
      sum = step(sum, std::visit(number, found->second));
    }
  }
  return sum;
}

/// Parses a line such as `loader rows=512 file=census`.
bool parse(std::string const& line, std::string& source, Fields& fields) {
  static std::regex const whole(R"((\w+) rows=(\d+) file=(\w+))");
  std::smatch parts;
  if (!std::regex_match(line, parts, whole)) {
    return false;
  }
  source = parts[1];
  fields["rows"] = std::stod(parts[2]);
  fields["file"] = parts[3].str();
  return true;
}

}  // namespace yardstick

int main() {
  using namespace yardstick;
  std::map<std::string, std::vector<Fields>> by_source;
  for (std::string line; std::getline(std::cin, line);) {
    std::string source;
    Fields fields;
    if (parse(line, source, fields)) {
      by_source[source].push_back(std::move(fields));
    }
  }
  using Column = std::function<double(std::vector<Fields> const&)>;
  std::map<std::string, Column> columns;
  columns["rows"] = [](auto const& lines) { return reduce(lines, "rows", std::plus<>()); };
  columns["name"] = [](auto const& lines) { return reduce(lines, "file", std::plus<>()); };
  for (auto const& [source, lines] : by_source) {
    std::cout << std::left << std::setw(20) << source;
    for (auto const& [title, column] : columns) {
      std::cout << ' ' << title << ' ' << std::setprecision(3) << column(lines);
    }
    std::cout << '\n';
  }
  return std::cout.flush() ? 0 : 1;
}
