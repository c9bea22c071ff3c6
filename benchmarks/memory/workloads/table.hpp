// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace benchmarks::workloads {

/// Prints lines of a name and numbers to standard output as they arrive.
class Table {
 public:
  struct Column {
    std::string above;  ///< first of two lines of heading
    std::string below;
    int digits = 0;  ///< after the decimal point
  };

  /// Prints the heading.
  explicit Table(std::vector<Column> columns);
  /// Prints a line with one number per column. A missing number leaves its cell empty.
  void add(std::string const& name, std::vector<std::optional<double>> const& numbers) const;

 private:
  std::vector<Column> columns_;
};

}  // namespace benchmarks::workloads
