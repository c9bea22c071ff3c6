// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace benchmarks::workloads {

/// Prints a table to standard output line by line, as the results arrive: a name and numbers per
/// line.
class Table {
 public:
  struct Column {
    std::string above;  ///< upper of the two lines of the column's heading
    std::string below;
    int digits = 0;  ///< digits after the decimal point
  };

  /// Prints the heading of the table.
  explicit Table(std::vector<Column> columns);
  /// Prints a line of the table with one number per column. A missing number leaves its cell empty.
  void add(std::string const& name, std::vector<std::optional<double>> const& numbers) const;

 private:
  std::vector<Column> columns_;
};

}  // namespace benchmarks::workloads
