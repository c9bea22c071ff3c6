// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace benchmarks::workloads {

/// Lines of a name and numbers, on standard output as they come.
class Table {
 public:
  struct Column {
    std::string above;  ///< two lines of heading
    std::string below;
    int digits = 0;  ///< behind the point
  };

  /// Prints the heading.
  explicit Table(std::vector<Column> columns);
  /// A number for each column; where there is none the cell stays empty.
  void add(std::string const& name, std::vector<std::optional<double>> const& numbers) const;

 private:
  std::vector<Column> columns_;
};

}  // namespace benchmarks::workloads
